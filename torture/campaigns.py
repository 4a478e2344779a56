"""All campaigns."""

from torture.campaign import Campaign
from torture.company import Company
from torture.conditions import Conditions
from torture.damage import Damage
from torture.faults import Faults
from torture.features import Features
from torture.formats import Formats
from torture.kills import Kills
from torture.logs import Logs
from torture.options import Options
from torture.payloads import Payloads
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
        Conditions(500),
        Payloads(400),
        Damage(),
        Kills(),
        Faults(),
        Company(660),
    ]
