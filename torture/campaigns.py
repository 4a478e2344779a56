"""All campaigns."""

from torture.campaign import Campaign
from torture.damage.damage import Damage
from torture.damage.kills import Kills
from torture.damage.recipes import RECIPES
from torture.faults.company import Company
from torture.faults.faults import Faults
from torture.faults.verbs import VERBS
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


def quick_campaigns() -> list[Campaign]:
    """Those whose inputs are made in a few seconds, for the tests."""
    by_name = {campaign.name: campaign for campaign in campaigns()}
    inputs = ("logs", "formats", "rankings", "features", "tables", "conditions")
    return [
        *(by_name[name] for name in inputs),
        Damage(0),
        Kills([recipe for recipe in RECIPES if recipe.name in ("count", "simulate")]),
        Faults([verb for verb in VERBS if verb.name in ("count", "position-bias", "fit items")]),
    ]
