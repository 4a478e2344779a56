"""All campaigns."""

from torture.campaign import Campaign
from torture.company import Company
from torture.conditions import Conditions
from torture.damage import Damage
from torture.faults import Faults
from torture.kills import Kills
from torture.logs import Logs
from torture.payloads import Payloads


def campaigns() -> list[Campaign]:
    """All of them, with their full number of cases."""
    return [
        Logs(6_000),
        Conditions(500),
        Payloads(400),
        Damage(),
        Kills(),
        Faults(),
        Company(660),
    ]
