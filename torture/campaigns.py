"""All campaigns."""

from torture.campaign import Campaign
from torture.damage.damage import Damage
from torture.damage.kills import Kills
from torture.faults.company import Company
from torture.faults.faults import Faults
from torture.inputs.conditions import Conditions
from torture.inputs.features import Features
from torture.inputs.formats import Formats
from torture.inputs.logs import Logs
from torture.inputs.options import Options
from torture.inputs.payloads import Payloads
from torture.inputs.rankings import Rankings
from torture.inputs.tables import Tables


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
        Damage(600),
        Kills(),
        Faults(),
        Company(660),
    ]
