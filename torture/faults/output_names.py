"""Odd names and kinds of outputs and inputs."""

import os
import stat
from pathlib import Path

from torture.faults.attack import Attack
from torture.faults.fault import Fault, each


def _named(attack: Attack, name: str, *codes: int) -> None:
    attack.move(name, attack.folder / name)
    attack.codes = codes or (0, 2)


def _suffix(attack: Attack) -> str:
    assert attack.verb.out is not None
    return os.path.splitext(attack.verb.out)[1]


def odd_name(attack: Attack, value: str) -> None:
    """A name that is unusual, and can be used or is refused."""
    _named(attack, f"{value}{_suffix(attack)}")


def long_name(attack: Attack, value: int) -> None:
    """A name that is too long for the file system, or for temporary files next to it."""
    _named(attack, "x" * value + _suffix(attack), 2)
    attack.place, attack.named = None, ("too long",)


def deep_name(attack: Attack) -> None:
    """A name in folders that are missing."""
    _named(attack, f"a/b/c/out{_suffix(attack)}")


def trailing_slash(attack: Attack) -> None:
    """A slash after the name: the same folder, but no file."""
    assert attack.verb.out is not None
    attack.move(f"{attack.verb.out}/", attack.place)
    attack.codes = (0,) if attack.verb.is_folder else (0, 2)


def foreign_folder(attack: Attack) -> None:
    """A folder with a file of somebody else."""
    assert attack.place is not None
    attack.place.mkdir()
    (attack.place / "own.txt").write_text("mine")
    attack.codes = (0, 2) if attack.verb.in_parts else (2,)
    attack.place = None if not attack.verb.in_parts else attack.place
    attack.whole = False


def foreign_file(attack: Attack) -> None:
    """A file of somebody else: refused where a folder is needed, else replaced."""
    assert attack.place is not None
    attack.place.write_text("mine")
    attack.codes = (2,) if attack.verb.is_folder else (0, 2)


def file_as_folder(attack: Attack) -> None:
    """A file where the folder of the output would be."""
    (attack.folder / "file").write_text("mine")
    _named(attack, f"file/out{_suffix(attack)}", 2)
    attack.place, attack.named = None, ("file",)


def link(attack: Attack, value: str) -> None:
    """A link to what is not there, to itself, or to the earlier output."""
    assert attack.place is not None
    if value == "loop":
        attack.place.symlink_to(attack.place.name)
        attack.codes, attack.place = (2,), None
        if not attack.verb.is_folder:
            # a link that is replaced by a file harms nothing
            attack.codes, attack.place = (0, 2), attack.folder / str(attack.verb.out)
        return
    target = attack.folder / f"target{_suffix(attack)}"
    if value == "target":
        attack.put_earlier()
        attack.place.rename(target)
    attack.place.symlink_to(target.name)
    attack.codes = (0, 2)
    attack.leaves = True  # the target of the link is written, or the link replaced


def device(attack: Attack, value: str) -> None:
    """A device or a pipe: not to be replaced by a file."""
    place = attack.folder / f"device{_suffix(attack)}"
    if value == "pipe":
        os.mkfifo(place)
    else:
        kind = {"null": (1, 3), "full": (1, 7)}[value]
        try:
            os.mknod(place, 0o666 | stat.S_IFCHR, os.makedev(*kind))
        except PermissionError:  # not root, who alone could replace the real one
            place.symlink_to(f"/dev/{value}")
    attack.out, attack.place = place.name, None
    attack.codes, attack.whole = (0, 1, 2), False


def replaced_input(attack: Attack) -> Path:
    """A name that takes the place of one of the inputs; nothing is there yet."""
    inputs = [at for at, word in enumerate(attack.words) if "in/" in word]
    path = attack.folder / "bad.csv"
    at = attack.rng.choice(inputs)
    name, equals, _ = attack.words[at].rpartition("=")
    attack.words[at] = f"{name}{equals}{path.name}"
    return path


def bad_input(attack: Attack, value: str) -> None:
    """An input that is no file."""
    path = replaced_input(attack)
    if value == "pipe":
        os.mkfifo(path)
    elif value == "null":
        path.symlink_to(os.devnull)
    elif value == "loop":
        path.symlink_to(path.name)
    elif value == "dangling":
        path.symlink_to("nowhere")
    elif value == "folder":
        path.mkdir()
    elif value == "zeros":
        path.write_bytes(bytes(5_000))
    elif value == "empty":
        path.touch()
    attack.codes = (2,)
    attack.named = ("bad.csv",)


NAMES = (
    *("two\nlines", "-dash", "--dash", "\udcff", " ", "  spaces  ", "\x1b[31mred", "ü\u202egnp"),
    *("*", "?", "[x]", "a'b", 'a"b', "a;b", "a=b", "%20", "~", "$HOME", "{}", ".hidden", "a:b"),
)

FAULTS = [
    *[
        Fault(f"name {fault.name[9:]!r}", fault.apply, of_output=True, earlier=False)
        for fault in each(odd_name, NAMES)
    ],
    *each(long_name, (250, 300, 5_000), of_output=True, earlier=False),
    Fault("deep name", deep_name, of_output=True, earlier=False),
    Fault("trailing slash", trailing_slash, of_output=True),
    Fault("foreign folder", foreign_folder, of_output=True, earlier=False),
    Fault("foreign file", foreign_file, of_output=True, earlier=False),
    Fault("file as folder", file_as_folder, of_output=True, earlier=False),
    *each(link, ("dangling", "loop", "target"), of_output=True, earlier=False),
    *each(device, ("null", "full", "pipe"), of_output=True, earlier=False),
    *each(
        bad_input,
        ("pipe", "null", "loop", "dangling", "folder", "zeros", "empty", "missing"),
        of_input=True,
    ),
]
