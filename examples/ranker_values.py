"""The paper's ranker evaluation (its figure 7) on synthetic data.

    python examples/ranker_values.py --runs 5 --out ranker-values.png

Fits an epistemic and a pointwise model to several simulated logs, predicts with both the clicks of
rankers by single features, and draws the predictions beside the truth.
"""

import argparse

import numpy as np

import epiclick as ec
from epiclick.paper.figures import draw_ranker_values
from epiclick.paper.worlds import evaluate_rankers


def main() -> None:
    """Run the experiment, draw it, print the coverage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--out", default="ranker-values.png")
    given = parser.parse_args()

    items = ec.simulate(queries=given.queries, docs=20, features=20, pages=1, seed=0).features

    def make_world(run: int) -> ec.World:
        return ec.simulate(dataset=items, pages=given.pages, positions=5, seed=run)

    found = evaluate_rankers(make_world, given.runs, joint=ec.EpistemicPBM(members=given.members))
    draw_ranker_values(found, given.out)
    for name in ("epistemic", "joint"):
        low, high = np.quantile(getattr(found, name), [0.05, 0.95], axis=2)
        covered = (low <= found.truth) & (found.truth <= high)
        print(f"{name}: 90 % intervals contain {covered.sum()} of {covered.size} true values")
    pointwise = np.abs(found.pointwise - found.truth).mean()
    epistemic = np.abs(found.joint.mean(axis=2) - found.truth).mean()
    print(f"mean error: {pointwise:.4f} pointwise, {epistemic:.4f} epistemic mean")
    print(f"written to {given.out}")


if __name__ == "__main__":
    main()
