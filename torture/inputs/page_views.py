"""Small random pages as people saw them, which formats write down each in its own way."""

from dataclasses import dataclass
from random import Random

START = 1_767_225_600
"""2026-01-01, in seconds since 1970."""


@dataclass(frozen=True)
class PageView:
    """One list of results that was shown once.

    Attributes:
        number: its number; pages are shown in this order.
        user: who saw it.
        query: what it answers.
        items: in the order shown.
        clicked: items that were clicked, in this order; one may be clicked twice.
        at: second at which it was shown; clicks follow one per second.
        device: on which.
    """

    number: int
    user: str
    query: str
    items: tuple[str, ...]
    clicked: tuple[str, ...]
    at: int
    device: str


def random_views(rng: Random, pages: int = 25) -> list[PageView]:
    """Pages of two to four results of three queries."""
    views = []
    for number in range(pages):
        query = rng.randrange(3)
        items = tuple(f"d{each}" for each in rng.sample(range(6), rng.choice((2, 3, 3, 4))))
        clicked = [item for at, item in enumerate(items, 1) if rng.random() < 0.5 / at]
        if clicked and rng.random() < 0.2:
            clicked.append(clicked[0])
        views.append(
            PageView(
                number=number,
                user=f"u{rng.randrange(8)}",
                query=f"query {query}",
                items=items,
                clicked=tuple(clicked) if number else items[:1],
                at=START + 100 * number,
                device=rng.choice(("phone", "desktop")),
            )
        )
    return views
