"""Arguments and options that mean the same in several verbs."""

from pathlib import Path
from typing import Annotated

import typer

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
Depth = Annotated[int | None, typer.Option(help="Last position that counts.")]
Truth = Annotated[
    Path | None, typer.Option(help="Folder of the simulated world that the log comes from.")
]
