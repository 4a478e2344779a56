"""Ctrl-C between steps, not within them."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_interrupts() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back until the function that is given is called; a second one comes at once.

    In the midst of a conversion by numpy an interrupt becomes another error, and as a lock is taken
    it may leave the lock held for ever, by which the thread that loads batches would wait.
    """
    pressed = False

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    # handlers can be set by the main thread alone; another program's own are left as they are
    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, hold)
    try:
        yield check
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    check()
