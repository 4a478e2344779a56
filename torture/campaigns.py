"""All campaigns."""

from torture.campaign import Campaign
from torture.damage import Damage
from torture.kills import Kills
from torture.logs import Logs


def campaigns() -> list[Campaign]:
    """All of them, with their full number of cases."""
    return [
        Logs(6_000),
        Damage(600),
        Kills(),
    ]
