"""All campaigns."""

from torture.campaign import Campaign
from torture.company import Company
from torture.conditions import Conditions
from torture.faults import Faults
from torture.logs import Logs
from torture.payloads import Payloads


def campaigns() -> list[Campaign]:
    """All of them, with their full number of cases."""
    return [Logs(6_000), Conditions(500), Payloads(400), Faults(), Company()]
