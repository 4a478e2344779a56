"""What `epiclick export` can write: for each target its file, its options, and what writes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.counts import ClickCounts
    from epiclick.data.features import FeatureTable


@dataclass(frozen=True)
class Asked:
    """What is to be written.

    Attributes:
        model: the fitted model.
        counts: clicks of the items, if given.
        table: features of the items, if given.
        out: the file.
        given: options of the target that were given.
    """

    model: "BaseModel"
    counts: "ClickCounts | None"
    table: "FeatureTable | None"
    out: Path
    given: Mapping[str, Any]


Write = Callable[[Asked], dict[str, Any]]
"""What writes an export, and gives what is told of it."""


@dataclass(frozen=True)
class Target:
    """A kind of file to write.

    Attributes:
        called: what it is, in words.
        example: name of such a file.
        options: those of the verb that it takes.
        write: what writes it.
        suffixes: ends of its name; any if none.
        needs_items: whether it tells of items at all times.
        needs_vectors: whether features are written too.
    """

    called: str
    example: str
    options: tuple[str, ...]
    write: Write
    suffixes: tuple[str, ...] = ()
    needs_items: bool = True
    needs_vectors: bool = False


def target_of(name: str, given: Mapping[str, Any]) -> Target:
    """The target of that name; refuses options that belong to others."""
    if name not in TARGETS:
        raise InputError(
            f"--to must be one of {', '.join(TARGETS)}, not {name!r}{did_you_mean(name, TARGETS)}"
        )
    for option in given:
        if option not in TARGETS[name].options:
            takers = [each for each, target in TARGETS.items() if option in target.options]
            raise InputError(
                f"--{option.replace('_', '-')} is for --to {' and '.join(takers)}, and has no "
                f"meaning for {name}; leave it out"
            )
    return TARGETS[name]


def write_lightgbm(asked: Asked) -> dict[str, Any]:
    """A training set."""
    data = asked.model.to_lightgbm(asked.counts, asked.table, **asked.given)
    data.to_parquet(asked.out)
    return {
        "rows": len(data),
        "queries": len(data.group),
        "features": len(data.feature_names),
        "how": data.how,
        "cuts": None if data.cuts is None else list(data.cuts),
        "clip": data.clip,
    }


def graded(write: Callable[..., None]) -> Write:
    """Judgements, by what writes them."""

    def write_grades(asked: Asked) -> dict[str, Any]:
        from epiclick.export.grades import cut_offs, grades
        from epiclick.export.judgements import judge

        items = judge(asked.model.fitted_, asked.counts, asked.table)
        cuts = cut_offs(items.mean, asked.given.get("cuts"))
        write(asked.out, items.query_id, items.doc_id, grades(items.mean, cuts))
        return {"rows": len(items), "cuts": list(cuts)}

    return write_grades


def write_qrels(*arguments: Any) -> None:
    """Judgements of TREC."""
    from epiclick.export.trec import write_qrels as write

    write(*arguments)


def write_quepid(*arguments: Any) -> None:
    """Ratings of Quepid."""
    from epiclick.export.quepid import write_ratings

    write_ratings(*arguments)


def write_run(asked: Asked) -> dict[str, Any]:
    """A ranking of TREC."""
    from epiclick.export.trec import write_run as write

    rank_by = asked.given.get("rank_by", "mean")
    seed = asked.given.get("seed", 0)
    ranking = asked.model.rank(asked.table, rank_by, asked.counts, seed=seed)
    write(asked.out, ranking)
    return {"rows": len(ranking), "rank_by": rank_by}


def write_arviz(asked: Asked) -> dict[str, Any]:
    """Posterior samples."""
    from epiclick.export.arviz import to_inference_data, write_inference_data

    data = to_inference_data(asked.model, asked.counts, asked.table, **asked.given)
    write_inference_data(asked.out, data)
    sizes = data.posterior.sizes
    return {"draws": sizes["draw"], "items": sizes.get("item", 0)}


TARGETS: Mapping[str, Target] = {
    "lightgbm": Target(
        "Parquet",
        "train.parquet",
        ("how", "cuts", "clip"),
        write_lightgbm,
        suffixes=(".parquet", ".pq"),
        needs_vectors=True,
    ),
    "qrels": Target("judgements of TREC", "qrels.txt", ("cuts",), graded(write_qrels)),
    "run": Target("a run of TREC", "run.txt", ("rank_by", "seed"), write_run),
    "quepid": Target("CSV", "ratings.csv", ("cuts",), graded(write_quepid), suffixes=(".csv",)),
    "arviz": Target(
        "NetCDF",
        "samples.nc",
        ("draws", "items", "seed"),
        write_arviz,
        suffixes=(".nc",),
        needs_items=False,
    ),
}
