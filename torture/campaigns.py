"""All campaigns."""

from torture.campaign import Campaign
from torture.features import Features
from torture.formats import Formats
from torture.logs import Logs
from torture.options import Options
from torture.rankings import Rankings
from torture.tables import Tables


def campaigns() -> list[Campaign]:
    """All of them, with their full number of cases."""
    return [
        Logs(6_000),
        Formats(2_000),
        Rankings(900),
        Features(800),
        Options(900),
        Tables(600),
    ]
