"""All campaigns."""

from torture.campaign import Campaign
from torture.company import Company
from torture.faults import Faults
from torture.logs import Logs


def campaigns() -> list[Campaign]:
    """All of them, with their full number of cases."""
    return [Logs(6_000), Faults(), Company(660)]
