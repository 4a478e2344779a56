"""`epiclick simulate`: a simulated click log with known truth, as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from epiclick.cli import console, options
from epiclick.click_models.registry import REGISTRY

if TYPE_CHECKING:
    Users = str
else:
    Users = Literal[(*REGISTRY, "impatient", "personal")]
THETA = "numbers such as 1,.5,.33"


def simulate(
    out: options.OutFolder,
    queries: Annotated[int | None, Option(help="Number of queries.", show_default="2000")] = None,
    docs: Annotated[int | None, Option(help="Documents per query.", show_default="20")] = None,
    features: Annotated[
        int | None, Option(help="Features per document.", show_default="20")
    ] = None,
    pages: Annotated[int, Option(help="Number of pages shown.")] = 40_000,
    positions: Annotated[int | None, Option(help="Positions per page.", show_default="5")] = None,
    theta: Annotated[
        str | None, Option(help="Position bias, such as 1,.5,.33", show_default="1/k at position k")
    ] = None,
    relevance: Annotated[
        Literal["label", "beta"],
        Option(help="From graded labels, or drawn from Betas that depend on the features."),
    ] = "label",
    dataset: Annotated[
        Path | None, Option(help="LETOR file or folder to use instead of synthetic data.")
    ] = None,
    users: Annotated[
        Users, Option(help="How users click: by a click model, or in a way that violates them.")
    ] = "pbm",
    policy_strength: Annotated[
        float, Option(help="Sharpness of the logging policy; 0 ranks at random.")
    ] = 1.0,
    conversions: Annotated[
        bool, Option("--conversions", help="Some clicks lead to a purchase, with a revenue.")
    ] = False,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Simulate a click log with known relevance and position bias.

    Example: epiclick simulate --out world --queries 500 --pages 10000
    """
    from epiclick import simulate as make_world
    from epiclick.data.writing import check_replaceable
    from epiclick.simulate.world_files import WORLD

    check_replaceable(out, WORLD)
    console.check_writable(out)
    own_theta = None if theta is None else options.numbers_in(theta, "--theta", THETA, float)
    silent = quiet or as_json
    with (
        console.collect_warnings(quiet=silent) as warnings,
        console.progress("simulating", quiet=silent),
    ):
        world = make_world(
            queries=queries,
            docs=docs,
            features=features,
            pages=pages,
            positions=positions,
            theta=own_theta,
            relevance=relevance,
            dataset=dataset,
            users=users,
            policy_strength=policy_strength,
            seed=seed,
            conversions=conversions,
        )
        with console.written_to(out):
            world.save(out)
    sizes = {"pages": world.pages, "pairs": len(world.features), "displays": world.log.num_rows}
    sizes["clicks"] = world.clicks
    if world.purchases is not None:
        sizes["purchases"] = world.conversions
    if as_json:
        bias = world.position_bias.tolist()
        console.print_json({**sizes, "position_bias": bias, "warnings": warnings})
        return
    console.print_text(", ".join(f"{count:,} {name}" for name, count in sizes.items()))
    console.print_table(
        "Position bias of this world",
        ["position", "position bias"],
        ([str(k), f"{theta_k:.4f}"] for k, theta_k in enumerate(world.position_bias, start=1)),
    )
    console.note(
        f"written to {out}: clicks.parquet, features.parquet, relevance.parquet, truth.json",
        quiet=quiet,
    )
