"""Rounds of log -> fit -> rank: does Thompson sampling earn more clicks than ranking by the mean?

    python examples/rounds.py --rounds 6 --seeds 3

Every strategy starts from the same small log. In each round it fits a model to all its data, ranks
by it, and shows the same number of pages again. `mean` always shows the best items by their
posterior mean. `thompson` shows the best items of one posterior draw, a new one for every batch of
pages, and so explores uncertain items. Regret is the shortfall from the best possible ranking.
"""

import argparse
import json
import warnings

import numpy as np
import pandas as pd

import epiclick as ec

STRATEGIES = ("mean", "thompson")
POSITIONS = 5


class Users:
    """Users of a world with known truth."""

    def __init__(self, queries: int, docs: int, seed: int) -> None:
        """Simulate a world whose features predict relevance only in part."""
        self.world = ec.simulate(
            queries=queries,
            docs=docs,
            features=4,
            pages=1,
            positions=POSITIONS,
            relevance="beta",
            seed=seed,
        )
        self.relevance = self.world.relevance.reshape(queries, docs)
        best = np.sort(self.relevance, axis=1)[:, ::-1][:, :POSITIONS]
        self.best = float((best @ self.world.position_bias).mean())

    def value(self, shown: np.ndarray) -> float:
        """Expected clicks per page of (queries, positions) documents."""
        relevance = np.take_along_axis(self.relevance, shown, axis=1)
        return float((relevance @ self.world.position_bias).mean())

    def click(self, shown: np.ndarray, pages: int, rng: np.random.Generator) -> pd.DataFrame:
        """A log of pages, each for a random query."""
        query = rng.integers(len(shown), size=pages)
        docs = shown[query]
        chance = self.relevance[query[:, None], docs] * self.world.position_bias
        return pd.DataFrame(
            {
                "query_id": np.repeat(query, POSITIONS),
                "doc_id": docs.ravel(),
                "position": np.tile(np.arange(1, POSITIONS + 1), pages),
                "click": (rng.random(chance.shape) < chance).astype(int).ravel(),
            }
        )


def play(how: str, users: Users, rounds: int, pages: int, batches: int, seed: int) -> list[dict]:
    """Expected clicks and regret of each round of one strategy."""
    rng = np.random.default_rng([seed, 1])
    queries, docs = users.relevance.shape
    order = np.argsort(rng.random((queries, docs)), axis=1)[:, :POSITIONS]
    log = users.click(order, pages, rng)
    played = []
    for number in range(rounds):
        counts = ec.read_log(log, features=users.world.features)
        model = ec.EpistemicPBM(seed=seed).fit(counts, progress=False)
        value = []
        for batch in range(batches if how == "thompson" else 1):
            ranking = model.rank(users.world.features, how, counts, seed=1000 * number + batch)
            shown = ranking["doc_id"].to_numpy().reshape(queries, docs)[:, :POSITIONS]
            value.append(users.value(shown))
            share = pages // (batches if how == "thompson" else 1)
            log = pd.concat([log, users.click(shown, share, rng)], ignore_index=True)
        played.append({"clicks": np.mean(value), "regret": users.best - np.mean(value)})
    return played


def main() -> None:
    """Play all strategies, print a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--pages", type=int, default=1_000, help="pages per round")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--docs", type=int, default=20)
    parser.add_argument("--batches", type=int, default=10, help="draws per round")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore", ec.InputWarning)  # small logs are the point
    result: dict = {"settings": vars(given), "strategies": {}}
    for how in STRATEGIES:
        runs = []
        for seed in range(given.seeds):
            users = Users(given.queries, given.docs, seed)
            played = play(how, users, given.rounds, given.pages, given.batches, seed)
            runs.append([[each["clicks"], each["regret"]] for each in played])
        clicks, regret = np.moveaxis(np.array(runs), 2, 0)  # (seeds, rounds) each
        result["strategies"][how] = {
            "clicks_per_page_by_round": clicks.mean(axis=0).round(4).tolist(),
            "regret_per_page_by_round": regret.mean(axis=0).round(4).tolist(),
            "cumulative_clicks_by_seed": (clicks.sum(axis=1) * given.pages).round(0).tolist(),
            "cumulative_regret_by_seed": (regret.sum(axis=1) * given.pages).round(0).tolist(),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
