"""Signals that stop a call, at a moment or while it does something that Python's audit reports."""

import os
import signal
import sys
import time

from torture.faults.attack import STOPPED, Attack
from torture.faults.fault import each

EVENTS = ("open", "os.", "import", "shutil.", "tempfile.", "exec", "socket.", "subprocess.")
"""Others also occur where Python drops exceptions, such as `__del__`."""


def are_handled() -> bool:
    """Whether the call has taken over the signals, and not given them back."""
    return signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL


def stopped_at_event(attack: Attack, value: str) -> None:
    """The signal comes with the n-th event."""
    number, at = getattr(signal, value), [attack.rng.randrange(max(attack.answer.events, 1))]

    def count(event: str, _: tuple) -> None:
        if not event.startswith(EVENTS) or not are_handled():
            return
        at[0] -= 1
        if at[0] == -1:
            os.kill(os.getpid(), number)

    attack.before.append(lambda: sys.addaudithook(count))
    attack.codes = (0, *STOPPED)


def stopped_at_moment(attack: Attack, value: str) -> None:
    """The signal comes after some time."""
    number, seconds = getattr(signal, value), attack.rng.uniform(0, attack.answer.seconds)
    read, write = os.pipe()

    has_begun: list[bool] = []

    def begin(*_: object) -> None:
        if not has_begun and are_handled():
            has_begun.append(True)
            os.write(write, b"x")
            os.close(write)

    def during(process: int) -> None:
        os.close(write)
        os.read(read, 1)
        os.close(read)
        time.sleep(seconds)
        os.kill(process, number)  # a process that has ended still has its number until it is waited

    attack.before.append(lambda: sys.addaudithook(begin))
    attack.during = during
    attack.codes = (0, *STOPPED, -number)  # it may come when the call is over


SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
FAULTS = [*each(stopped_at_event, SIGNALS, times=2), *each(stopped_at_moment, SIGNALS, times=2)]
