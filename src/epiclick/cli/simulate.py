"""`epiclick simulate`: a world whose truth is known, as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from epiclick.cli.console import (
    AsJson,
    Quiet,
    check_writable,
    note,
    print_json,
    print_table,
    print_text,
    progress,
    told_warnings,
    written_to,
)
from epiclick.cli.options import numbers_in
from epiclick.click_models.registry import REGISTRY

if TYPE_CHECKING:
    Users = str
else:
    Users = Literal[(*REGISTRY, "cascade", "trust", "personal")]
THETA = "numbers such as 1,.5,.33"


def simulate(
    out: Annotated[Path, typer.Option(help="Folder to write.", show_default=False)],
    queries: Annotated[int | None, typer.Option(help="Queries.", show_default="2000")] = None,
    docs: Annotated[int | None, typer.Option(help="Documents a query.", show_default="20")] = None,
    features: Annotated[int | None, typer.Option(help="Features.", show_default="20")] = None,
    pages: Annotated[int, typer.Option(help="Pages shown.")] = 40_000,
    positions: Annotated[
        int | None, typer.Option(help="Positions of a page.", show_default="5")
    ] = None,
    theta: Annotated[
        str | None, typer.Option(help="Position bias: 1,.5,.33", show_default="1/k")
    ] = None,
    relevance: Annotated[
        Literal["label", "beta"],
        typer.Option(help="From graded labels, or drawn from Betas that depend on features."),
    ] = "label",
    dataset: Annotated[
        Path | None, typer.Option(help="LETOR file or folder instead of synthetic data.")
    ] = None,
    users: Annotated[
        Users, typer.Option(help="How users click: by a click model, or so as to break them.")
    ] = "pbm",
    policy_strength: Annotated[
        float, typer.Option(help="Sharpness of the logging policy; 0 ranks at random.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a click log with known relevance and position bias.

    Example: epiclick simulate --out world --queries 500 --pages 10000
    """
    from epiclick import simulate as make_world
    from epiclick.data.writing import check_replaceable
    from epiclick.simulate.world_files import WORLD

    check_replaceable(out, WORLD)
    check_writable(out)
    own_theta = None if theta is None else numbers_in(theta, "--theta", THETA, float)
    silent = quiet or as_json
    with told_warnings(quiet=silent) as warnings, progress("simulating", quiet=silent):
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
        )
        with written_to(out):
            world.save(out)
    sizes = {"pages": world.pages, "pairs": len(world.features), "displays": world.log.num_rows}
    sizes["clicks"] = world.clicks
    if as_json:
        bias = world.position_bias.tolist()
        print_json({**sizes, "position_bias": bias, "warnings": warnings})
        return
    print_text(", ".join(f"{count:,} {name}" for name, count in sizes.items()))
    print_table(
        "Position bias of this world",
        ["position", "position bias"],
        ([str(k), f"{theta_k:.4f}"] for k, theta_k in enumerate(world.position_bias, start=1)),
    )
    note(
        f"written to {out}: clicks.parquet, features.parquet, relevance.parquet, truth.json",
        quiet=quiet,
    )
