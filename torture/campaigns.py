"""All campaigns."""

from torture.campaign import Campaign
from torture.features import Features
from torture.formats import Formats
from torture.logs import Logs
from torture.rankings import Rankings


def campaigns() -> list[Campaign]:
    """All of them, with their full number of cases."""
    return [
        Logs(6_000),
        Formats(2_000),
        Rankings(900),
        Features(800),
    ]
