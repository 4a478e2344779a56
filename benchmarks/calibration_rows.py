"""Coverage in simulated worlds, gathered over as many runs of `epiclick calibrate` as it takes.

A run of 240 worlds of all families takes many hours. What tables need of a world is a few numbers,
which are kept in one small file, so that runs can be stopped, and continued on another machine:

    epiclick calibrate --worlds 240 --families sdbn,dcm --out FOLDER    (stopped at any time)
    python benchmarks/calibration_rows.py collect FOLDER worlds.parquet
    python benchmarks/calibration_rows.py table worlds.parquet > rows.json

`collect` adds the worlds of a folder to those of the file. `table` prints JSON: `rows` (coverage by
family and quantity, its 99 % interval clustered by world, p-values and Holm's correction over
well-specified rows; for values of rankers also their mean relative error), `pooled` (by quantity
over well-specified families, each world with the same weight) and `orders` (probability that the
first of two rankers is better, and how often it is). `page worlds.parquet README.md` puts the
tables into the page.
`missing N FOLDER worlds.parquet` makes empty stand-ins in the folder for worlds of the file below
number N, so that a run there leaves them out; they are not collected.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from epiclick.calibration.answers import LEVELS, Answers
from epiclick.calibration.families import FAMILIES, WELL_SPECIFIED
from epiclick.calibration.methods import find_methods
from epiclick.calibration.runner import WORLDS, Task, load_answers
from epiclick.calibration.table import DIFFERENCE, EDGES, chance_of
from epiclick.cli.console import json_safe
from epiclick.evaluation.coverage import clustered_mean, clustered_share, is_covered

METHOD = "marginal"
VALUES = ("ranker_value", "conversions_per_page", "value_per_page")
KEY = ["family", "world", "quantity"]
NORMAL = 2 * stats.norm.isf(0.05)  # width of a 90 % interval in standard deviations


def summary(family: str, world: int, quantity: str, given: Answers) -> dict[str, object]:
    """What tables need of one quantity in one world."""
    ends = zip(given.low, given.high, strict=True)
    hits = [int(is_covered(given.truth, low, high).sum()) for low, high in ends]
    width = given.high[-1] - given.low[-1]
    z = (given.centre - given.truth) / np.maximum(width / NORMAL, 1e-12)
    row = {"family": family, "world": world, "quantity": quantity, "values": len(given.truth)}
    row |= {f"covered_{level:.0%}".rstrip("%"): n for level, n in zip(LEVELS, hits, strict=True)}
    row |= {"width": width.mean(), "z": z.mean(), "z_square": np.square(z).mean()}
    row["error"] = given.centre.mean() / given.truth.mean() - 1 if quantity in VALUES else np.nan
    if quantity == DIFFERENCE:
        row["chance"] = chance_of(given.draws)
        row["better"] = given.truth[: len(given.draws)] > 0
    return row


def finished(folder: str) -> Iterator[tuple[str, int, dict[str, Answers]]]:
    """Family, number and answers of the worlds that a run has finished."""
    for path in sorted(Path(folder, WORLDS).glob(f"*/{METHOD}/*.npz")):
        if path.stat().st_size:
            yield path.parts[-3], int(path.name.split("-")[0]), load_answers(path)


def collect(folder: str, file: str) -> None:
    """Add the worlds of a folder to a file."""
    rows = [
        summary(family, world, quantity, given)
        for family, world, answers in finished(folder)
        for quantity, given in answers.items()
    ]
    parts = [pd.read_parquet(file)] if Path(file).is_file() else []
    both = pd.concat([*parts, pd.DataFrame(rows)], ignore_index=True)
    both = both.drop_duplicates(KEY, keep="last").sort_values(KEY)
    both.to_parquet(file, index=False, compression="zstd")
    print(both.groupby("family")["world"].nunique().to_string(), file=sys.stderr)


def leave_out(most: int, folder: str, file: str) -> None:
    """Empty files in place of the worlds that are known."""
    (method,) = find_methods([METHOD])
    for family, world in {*pd.read_parquet(file, columns=KEY[:2]).itertuples(index=False)}:
        path = Task(FAMILIES[family], method, 0, world).path(Path(folder, WORLDS))
        if world < most and not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def share_of(table: pd.DataFrame, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Whether each interval contains the truth, and its world; the order within one is lost."""
    hits, sizes = table[f"covered_{100 * level:.0f}"].to_numpy(), table["values"].to_numpy()
    inside = np.concatenate([np.arange(n) < hit for n, hit in zip(sizes, hits, strict=True)])
    return inside, np.repeat(np.arange(len(table)), sizes)


def rows_of(table: pd.DataFrame) -> list[dict[str, object]]:
    """Rows of all families, with p-values."""
    rows: list[dict[str, object]] = []
    for name in (name for name in FAMILIES if name in set(table["family"])):
        for quantity, own in table[table["family"] == name].groupby("quantity"):
            for level in LEVELS:
                share = clustered_share(*share_of(own, level))
                # where all or none are covered, as if the values of a world were all one
                alike = np.sqrt(level * (1 - level) / share.worlds)
                t = (share.actual - level) / (share.error or alike)
                row = {"family": name, "well_specified": FAMILIES[name].well_specified}
                row |= {"quantity": quantity, "nominal": level, **asdict(share)}
                row |= {"flagged": share.excludes(level), "width": own["width"].mean()}
                row["p"] = float(2 * stats.t.sf(abs(t), max(share.worlds - 1, 1)))
                row |= {"mean_z": own["z"].mean(), "rms_z": np.sqrt(own["z_square"].mean())}
                if quantity in VALUES:
                    row["relative_error"] = own["error"].mean()
                    row["relative_error_sd"] = own["error"].std() / np.sqrt(len(own))
                rows.append(row)
    judged = sorted((row for row in rows if row["well_specified"]), key=lambda row: row["p"])
    most = 0.0
    for place, row in enumerate(judged):
        most = max(most, min(row["p"] * (len(judged) - place), 1.0))
        row["holm"] = most
    return rows


def pooled(table: pd.DataFrame) -> list[dict[str, object]]:
    """Coverage by quantity over all well-specified families."""
    found = []
    for quantity, own in right_of(table).groupby("quantity", sort=False):
        for level in LEVELS:
            share = own[f"covered_{100 * level:.0f}"] / own["values"]
            row = {"quantity": quantity, "nominal": level, "worlds": len(own)}
            found.append({**row, "actual": share.mean(), "error": share.sem()})
    return found


def right_of(table: pd.DataFrame) -> pd.DataFrame:
    """Worlds of well-specified families."""
    right = [name for name, family in FAMILIES.items() if family.well_specified]
    return table[table["family"].isin(right)]


def orders_of(table: pd.DataFrame) -> list[dict[str, object]]:
    """Of all well-specified families together, of those with and without features, and of others.

    Without features rankers differ by chance alone, as relevance does not depend on their scores.
    """
    right, rows = right_of(table), []
    with_features = right["family"].map(lambda name: FAMILIES[name].with_features)
    groups = {
        WELL_SPECIFIED: right,
        "with features": right[with_features],
        "without features": right[~with_features],
    }
    groups |= dict(iter(table[~table.index.isin(right.index)].groupby("family")))
    for name, group in groups.items():
        own = group[group["quantity"] == DIFFERENCE]
        if not len(own):
            continue
        chance, better = (np.concatenate(own[part].to_list()) for part in ("chance", "better"))
        world = np.repeat(np.arange(len(own)), own["chance"].map(len))
        place = np.clip(np.searchsorted(EDGES, chance, side="right") - 1, 0, len(EDGES) - 2)
        for number, (low, high) in enumerate(pairwise(EDGES)):
            if not np.any(here := place == number):
                continue
            share = clustered_share(better[here], world[here])
            predicted, _ = clustered_mean(chance[here], world[here])
            row = {"family": name, "bin_low": low, "bin_high": high, "predicted": predicted}
            rows.append({**row, **asdict(share), "flagged": share.excludes(predicted)})
    return rows


COLUMNS = (
    "position_bias",
    "click_offset",
    "unseen_relevance",
    "seen_relevance",
    "click_probability",
    "ranker_value",
    "ranker_difference",
)


NAMES = {
    "position_bias": "position bias, slopes, continuation",
    "click_offset": "offsets of trust models",
    "unseen_relevance": "relevance of unseen items",
    "seen_relevance": "relevance of items by their own clicks",
    "click_probability": "probability of a click",
    "ranker_value": "clicks per page of rankers never shown",
    "ranker_difference": "differences between two of them",
    "conversion": "conversions of items",
    "conversions_per_page": "conversions per page of rankers",
    "value_per_page": "value of conversions per page",
}


def by_family(table: pd.DataFrame, *, well_specified: bool) -> Iterator[str]:
    """Coverage of 90 % intervals, a row for each family."""
    wanted = [r for r in rows_of(table) if r["nominal"] == LEVELS[-1]]
    wanted = [r for r in wanted if r["well_specified"] == well_specified]
    rows = {(r["family"], r["quantity"]): r for r in wanted}
    yield (
        "| family | worlds | position bias, slopes, continuation | offsets | unseen relevance | "
        "relevance by own clicks | click probability | ranker value | ranker difference | error of "
        "values |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for name in dict.fromkeys(family for family, _ in rows):
        cells = [cell(rows.get((name, quantity))) for quantity in COLUMNS]
        value = rows.get((name, "ranker_value"))
        error = "-"
        if value is not None:
            error = f"{100 * value['relative_error']:+.1f} ± {100 * value['relative_error_sd']:.1f}"
        worlds = table[table["family"] == name]["world"].nunique()
        yield f"| `{name}` | {worlds} | {' | '.join(cells)} | {error} % |"


def by_quantity(table: pd.DataFrame) -> Iterator[str]:
    """Coverage over all well-specified families."""
    found = {(row["quantity"], row["nominal"]): row for row in pooled(table)}
    yield "| | worlds | 50 % intervals | 90 % intervals |"
    yield "|---|--:|--:|--:|"
    for quantity, name in NAMES.items():
        own = [found[quantity, level] for level in LEVELS if (quantity, level) in found]
        shares = [f"{100 * row['actual']:.1f} ± {100 * row['error']:.1f}" for row in own]
        if own:
            yield f"| {name} | {own[0]['worlds']:,} | {' | '.join(shares)} |"


def by_chance(table: pd.DataFrame) -> Iterator[str]:
    """How often the first of two rankers is better, by the predicted probability."""
    groups = {"with features": [], "without features": []}
    for row in orders_of(table):
        if row["family"] in groups:
            actual, low, high = (100 * row[part] for part in ("actual", "low", "high"))
            off = " off" if row["flagged"] else ""
            share = f"{actual:.1f} ({low:.1f} to {high:.1f}){off}"
            groups[row["family"]].append(f"{100 * row['predicted']:.1f} | {share}")
    yield "| predicted | actual, with features | predicted | actual, without features |"
    yield "|--:|--:|--:|--:|"
    for both in zip(*groups.values(), strict=True):
        yield f"| {' | '.join(both)} |"


def in_words(table: pd.DataFrame) -> Iterator[str]:
    """How many worlds there are, and which rows are off."""
    judged = [row for row in rows_of(table) if row["well_specified"]]
    worlds = right_of(table).groupby("family")["world"].nunique()
    off = sum(bool(row["flagged"]) for row in judged)
    held = [row for row in judged if row["holm"] < 0.01]
    named = "; ".join(
        f"{NAMES[row['quantity']]}, `{row['family']}`, {row['nominal']:.0%} intervals: "
        f"{100 * row['actual']:.1f} %"
        for row in sorted(held, key=lambda row: row["p"])
    )
    yield (
        f"{worlds.sum():,} worlds of {len(worlds)} families, {worlds.min()} to {worlds.max()} of "
        f"each. {off} of {len(judged)} rows of both levels are off at 99 %, where 1 in 100 is by "
        f"chance; with Holm's correction {len(held)}" + (f" ({named})." if held else ".")
    )


def write_page(file: str, page: str) -> None:
    """Fill in what is between the marks of a page: <!-- NAME --> and <!-- end -->."""
    table = pd.read_parquet(file)
    parts = {
        "families": by_family(table, well_specified=True),
        "others": by_family(table, well_specified=False),
        "pooled": by_quantity(table),
        "chances": by_chance(table),
        "worlds": in_words(table),
    }
    text = Path(page).read_text()
    for name, lines in parts.items():
        mark = f"<!-- {name} -->"
        before, rest = text.split(mark)
        _, after = rest.split("<!-- end -->", 1)
        own = "\n".join(lines)
        text = f"{before}{mark}\n\n{own}\n\n<!-- end -->{after}"
    Path(page).write_text(text)


def cell(row: dict[str, object] | None) -> str:
    if row is None:
        return "-"
    actual, low, high = (100 * float(row[part]) for part in ("actual", "low", "high"))
    off = " off" if row["flagged"] and row["well_specified"] else ""
    if off and float(row["holm"]) < 0.01:
        off = " **off**"
    return f"{actual:.1f} ({low:.0f} to {high:.0f}){off}"


def main() -> None:
    verb, *names = sys.argv[1:]
    if verb == "collect":
        collect(*names)
    elif verb == "missing":
        leave_out(int(names[0]), *names[1:])
    elif verb == "page":
        write_page(*names)
    else:
        table = pd.read_parquet(names[0])
        record = {"rows": rows_of(table), "pooled": pooled(table), "orders": orders_of(table)}
        print(json.dumps(json_safe(record), indent=1))


if __name__ == "__main__":
    main()
