"""Arguments and options that mean the same in several verbs."""

from pathlib import Path
from typing import Annotated

import typer

from epiclick.click_models.registry import HOMES

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Folder that fit wrote.", show_default=False)
]
Features = Annotated[str | None, typer.Option(metavar="FILE", help="Features of the items.")]
OwnClicks = Annotated[
    list[str] | None,
    typer.Option(metavar="LOG", help="Log of the items' own clicks. May be repeated."),
]
Backtest = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LOG", help="A log held back, to check the model's clicks on. May be repeated."
    ),
]
ClickModel = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"How users look and click: one of {', '.join(HOMES)}.",
        show_default="pbm",
    ),
]
Depth = Annotated[int | None, typer.Option(help="Last position that counts.")]
Truth = Annotated[
    Path | None, typer.Option(help="Folder of the simulated world that the log comes from.")
]
