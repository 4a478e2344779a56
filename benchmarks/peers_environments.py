"""Peers, each in its own virtual environment, so that none becomes a dependency of epiclick."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SECONDS = 1_800  # for an installation


class Missing(Exception):
    """A peer that is not available, with the reason."""


@dataclass(frozen=True)
class Peer:
    """A peer and what is installed for it.

    Attributes:
        what: short description.
        requirements: exact versions; none for a peer that cannot be installed.
        why_not: the reason why it does not take part, else empty.
    """

    what: str
    requirements: tuple[str, ...] = ()
    why_not: str = ""


PEERS = {
    "clax": Peer(
        "CLAX: neural click models in JAX and Flax, point estimates",
        # clax-models asks for jax>=0.6, but flax below 0.12, which it needs, fails with newer ones
        ("clax-models==0.1.1", "jax==0.8.0", "jaxlib==0.8.0", "flax==0.11.2", "optax==0.2.8",
         "rax==0.4.0", "torch==2.15.0", "numpy==2.4.6", "pandas==3.1.1", "pyarrow==26.0.1",
         "progress-table==3.3.4"),
    ),
    "lightgbm": Peer(
        "LightGBM: lambdarank with position debiasing",
        ("lightgbm==4.7.0", "numpy==2.4.6", "scipy==1.17.1"),
    ),
    "pyclick": Peer(
        "PyClick 0.2 (markovi/PyClick): classic click models by EM",
        why_not="not in the package registry, whose 'pyclick' moves the mouse pointer",
    ),
    "clickmodels": Peer(
        "clickmodels 1.0.2 (varepsilon/clickmodels): click models by EM",
        why_not="written for Python 2, and without a position-based model",
    ),
    "obp": Peer(
        "OBP 0.4.1: off-policy evaluation",
        why_not="needs logged propensities, which click logs lack, and has no click model",
    ),
    "ultra": Peer(
        "ULTRA: unbiased learning to rank",
        why_not="not in the package registry",
    ),
}  # fmt: skip


def python_of(name: str, folder: Path, *, install: bool) -> Path:
    """The interpreter of a peer's environment under `folder`, created if there is none."""
    peer = PEERS[name]
    if peer.why_not:
        raise Missing(peer.why_not)
    home = folder.absolute() / name
    done = home / "installed.txt"
    wanted = "\n".join(peer.requirements)
    if not (done.exists() and done.read_text() == wanted):
        if not install:
            raise Missing(f"not installed in {folder}")
        print(f"installing {', '.join(peer.requirements)}", file=sys.stderr)
        run([sys.executable, "-m", "venv", "--clear", str(home)])
        pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        run([*pip, "install", "--quiet", *peer.requirements])
        done.write_text(wanted)
    return home / "bin" / "python"


def run(command: list[str]) -> None:
    """Run a step of an installation; if it fails, its last line is the reason."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.CalledProcessError as error:
        raise Missing(f"cannot be installed: {last_line(error.stderr)}") from error
    except subprocess.TimeoutExpired as error:
        raise Missing(f"cannot be installed within {SECONDS} seconds") from error


def last_line(text: str) -> str:
    """The last line that is not blank."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason")
