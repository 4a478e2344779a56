"""The verbs: a call of each that works, and attacks on it."""

from collections.abc import Mapping
from dataclasses import dataclass

from torture.inputs.option_values import (
    FEATURES,
    LEVEL,
    LOG,
    NAMES,
    NOT_NUMBER,
    NOT_WHOLE,
    OUTPUT,
    Attack,
    Words,
    among,
    choice,
    fails,
    may,
    seeds,
    share,
    whole,
    works,
)

CLICK_MODELS = ("pbm", "ubm", "trust", "cascade", "dcm", "sdbn")
ODD_FILES = ("\x1b[31m", "ünï", "a b", "-x", "it's", 'q"uote', "a" * 250, "..", "", ".", "no/where")


@dataclass(frozen=True)
class VerbCalls:
    """A verb, and how it is called.

    Attributes:
        base: a call that works; `{}` is the folder with the log, models and rankings.
        attacks: words to add to it.
        own_log: whether it reads a log with options of its own, not with those of a model.
        is_slow: whether a call that works takes seconds, so that few of them should.
    """

    base: Words
    attacks: tuple[Attack, ...]
    own_log: bool = False
    is_slow: bool = False


def outputs(option: str, suffix: str = "") -> list[Attack]:
    """Paths to write to."""
    return [Attack((option, f"{name}{suffix}"), "may") for name in ODD_FILES]


def lenient(attacks: list[Attack]) -> list[Attack]:
    """The same options where they may contradict a model."""
    return [Attack(each.words, "may" if each.must == "work" else each.must) for each in attacks]


TWICE = fails("--ranking", "new={}/old.csv")
RANKINGS = ("--ranking", "new={}/new.csv", "--ranking", "old={}/old.csv")
ODD_RANKINGS = [
    *fails("--ranking", "x=nothing.csv"),
    *fails("--ranking", "=x"),
    *fails("--ranking", "x="),
    *fails("--ranking", ""),
    *fails("--ranking", "x={}/new.csv:nothing"),
    *fails("--ranking", "x={}"),
    *fails("--ranking", "x={}/model"),
]
DEPTH = [*among("--depth", good=("1", "2"), bad=(*NOT_WHOLE, "0", "-1")), *works("--extrapolate")]
SAMPLES = among("--samples", good=("100", "500"), bad=(*NOT_WHOLE, "0", "-1"), odd=("1", "2"))
OVERLAP = among(
    "--overlap", good=("1/2", "0", "0.5"), bad=("x", "", "2", "-1", "1/0", "3/2", "nan")
)

VERBS: Mapping[str, VerbCalls] = {
    "count": VerbCalls(
        ("count", "{}/log.csv"),
        (
            *(LOG * 2),
            *OUTPUT,
            *works("--out", "c.parquet"),
            *outputs("--out", ".parquet"),
            *among("--part", good=("day", "device"), bad=("nothing", "")),
            *whole("--page-parts", "2", "3", least=2),
            *works("--part", "day", "--last", "2"),
            *fails("--last", "2"),
            *fails("--part", "day", "--last", "0"),
            *choice("--click-model", *CLICK_MODELS),
            *among("--cluster", good=("query", "user", "page", "day"), bad=("nothing", "")),
            *fails("nothing.csv"),
            *fails("{}"),
        ),
        own_log=True,
    ),
    "inspect": VerbCalls(
        ("inspect", "{}/log.csv"),
        (*(Attack(each.words, "may") for each in LOG), *OUTPUT, *fails("nothing.csv")),
        own_log=True,
    ),
    "fit": VerbCalls(
        ("fit", "{}/log.csv", "--out", "m", "--epochs", "3"),
        (
            *LOG,
            *OUTPUT,
            *LEVEL,
            *seeds(),
            *choice("--click-model", "pbm", "trust", "cascade", "dcm"),
            *among("--estimator", good=("marginal",), bad=NAMES),
            *whole("--epochs", "1", "2"),
            *whole("--patience", "0", "2", least=0),
            *among("--holdout", good=("0.2",), bad=(*NOT_NUMBER, "1", "-0.1", "nan", "2")),
            *whole("--members", "1"),
            *among("--anchor", good=("1", "2", "auto"), bad=("9", "x", "", "1,2", "phone,1")),
            *among("--position-bias", good=("{}/bias.csv",), bad=("nothing.csv", "{}/log.csv", "")),
            *among("--init", good=("{}/model",), bad=("nothing", "{}", "{}/log.csv")),
            *among("--randomised", good=("even",), bad=("nothing", "position", "device")),
            *among("--hidden", good=("4", "4,4"), bad=("x", "0", "-1", "1.5", "4,,4")),
            *whole("--batch-size", "10", "1000"),
            *among("--learning-rate", good=("0.1",), bad=(*NOT_NUMBER, "0", "-1", "nan", "inf")),
            *among("--weight-decay", good=("0", "0.1"), bad=(*NOT_NUMBER, "-1", "nan", "inf")),
            *among("--theta-posterior", good=("laplace",), bad=NAMES),
            *among("--entropy", good=("0",), bad=(*NOT_NUMBER, "nan", "inf")),
            *whole("--samples", "10"),
            *fails("--resume", "--overwrite"),
            *works("--overwrite"),
            *outputs("--out"),
            *among("--cluster", good=("query", "user", "page", "day"), bad=("nothing",)),
            *fails("--missing-values", "impute"),
            *fails("--valid", "nothing.csv"),
            *fails("--exposure-from", "nothing.csv"),
            *works("--features", "{}/features.csv"),
        ),
        own_log=True,
    ),
    "select": VerbCalls(
        ("select", "{}/log.csv", "--models", "pbm,dcm"),
        (
            *LEVEL,
            *seeds(),
            *OUTPUT,
            *among("--models", good=("pbm", "dcm,pbm"), bad=("x", "pbm,x", "", "pbm,pbm")),
            *among("--holdout", good=("0.3",), bad=(*NOT_NUMBER, "0", "1", "-1", "nan")),
            *works("--out", "s.json"),
            *outputs("--out", ".json"),
            *[each for each in LOG if each.must == "fail"],
        ),
        own_log=True,
        is_slow=True,
    ),
    "position-bias": VerbCalls(
        ("position-bias", "{}/model"),
        (
            *OUTPUT,
            *LEVEL,
            *among("--kind", good=("robust", "bayes"), bad=("evidential", *NAMES)),
        ),
    ),
    "drift": VerbCalls(
        ("drift", "{}/model", "{}/other"),
        (*OUTPUT, *LEVEL, *OVERLAP, *works("--out", "d.parquet"), *outputs("--out", ".parquet")),
    ),
    "relevance": VerbCalls(
        ("relevance", "{}/model", "--out", "r.parquet"),
        (
            *OUTPUT,
            *among("--above", good=("0.5", "0.1"), bad=(*NOT_NUMBER, "nan", "2", "-1")),
            *works("--clicks", "{}/log.csv"),
            *fails("--clicks", "nothing.csv"),
            *(Attack(("--clicks", "{}/log.csv", *each.words), each.must) for each in lenient(LOG)),
            *outputs("--out", ".parquet"),
            *fails("--out", "r.txt"),
        ),
    ),
    "relevance with features": VerbCalls(
        ("relevance", "{}/featured", "--out", "r.parquet", "--features", "{}/features.csv"),
        (*FEATURES, *OUTPUT),
    ),
    "evaluate": VerbCalls(
        ("evaluate", "{}/model", "{}/log.csv"),
        (
            *lenient(LOG),
            *OUTPUT,
            *among("--train", good=("{}/log.csv",), bad=("nothing.csv", "{}")),
            *among("--against", good=("{}/other",), bad=("nothing", "{}/log.csv", "")),
            *among("--by", good=("device", "device,day"), bad=("nothing", "device,device,nothing")),
            *fails("--truth", "nothing"),
            *fails("--truth", "{}/model"),
            *fails("nothing.csv"),
        ),
    ),
    "compare": VerbCalls(
        ("compare", "{}/model", *RANKINGS),
        (
            *ODD_RANKINGS,
            *TWICE,
            *DEPTH,
            *SAMPLES,
            *LEVEL,
            *seeds(),
            *OUTPUT,
            *choice("--weights", "uniform"),
            *among("--against", good=("old", "new"), bad=("x", "", "OLD")),
            *among("--measure", good=("clicks",), bad=("conversions", "value", *NAMES)),
            *among("--fail-unless-better", good=(), bad=(*NOT_NUMBER, "nan", "2", "-1", "0", "1")),
            *may("--fail-unless-better", "0.6"),
            *may("--gate", "lower", "--despite", "unseen,positions"),
            *fails("--gate", "upper"),
            *fails("--gate", "lower", "--fail-unless-better", "0.9"),
            *fails("--despite", "unseen"),
            *fails("--gate", "lower", "--despite", "nothing"),
            *works("--clicks", "{}/log.csv"),
            *works("--backtest", "{}/log.csv"),
            *works("--also", "{}/other"),
            *fails("--also", "nothing"),
            *fails("--truth", "{}"),
            *(Attack(("--clicks", "{}/log.csv", *each.words), each.must) for each in lenient(LOG)),
        ),
    ),
    "plan": VerbCalls(
        ("plan", "{}/model", *RANKINGS, "--clicks", "{}/log.csv"),
        (
            *ODD_RANKINGS,
            *TWICE,
            *DEPTH,
            *SAMPLES,
            *LEVEL,
            *seeds(),
            *OUTPUT,
            *share("--power", "0.7", "0.9"),
            *share("--significance", "0.1"),
            *among("--sure", good=("0.9",), bad=(*NOT_NUMBER, "0", "1", "nan", "-1", "2")),
            *among("--pages-per-day", good=("100", "0.5"), bad=(*NOT_NUMBER, "0", "-1", "nan")),
            *works("--out", "p.json"),
            *outputs("--out", ".json"),
            *works("--pages-out", "p.parquet"),
            *outputs("--pages-out", ".parquet"),
            *fails("--ranking", "third={}/new.csv"),
        ),
    ),
    "interleave": VerbCalls(
        ("interleave", *RANKINGS, "--out", "p.parquet"),
        (
            *ODD_RANKINGS,
            *TWICE,
            *among("--depth", good=("1", "2"), bad=(*NOT_WHOLE, "0", "-1")),
            *seeds(),
            *OUTPUT,
            *whole("--pages-per-query", "1", "3"),
            *among("--traffic", good=("{}/log.csv",), bad=("nothing.csv", "{}")),
            *fails("--clicks", "{}/log.csv"),
            *fails("--pages", "nothing.parquet", "--clicks", "{}/log.csv"),
            *outputs("--out", ".parquet"),
            *fails("--cluster", "x"),
        ),
    ),
    "export": VerbCalls(
        ("export", "{}/model", "--to", "qrels", "--out", "q.txt"),
        (
            *OUTPUT,
            *among("--to", good=("run", "ltr", "quepid", "srw"), bad=NAMES),
            *among(
                "--cuts",
                good=("0.1,0.2,0.3,0.4",),
                bad=("x", "1,2", "0.4,0.3,0.2,0.1", "nan,1,2,3", "0.1,0.2,0.3,0.4,0.5"),
            ),
            *(
                Attack(("--to", "run", *each.words), each.must)
                for each in choice("--rank-by", "mean", "lower", "upper", "thompson")
            ),
            *works("--clicks", "{}/log.csv"),
            *fails("--clicks", "nothing.csv"),
            *may("--to", "arviz", "--draws", "5"),
            *fails("--to", "arviz", "--draws", "0", "--out", "a.nc"),
            *fails("--to", "lightgbm", "--how", "x", "--out", "a.parquet"),
            *may("--to", "srw", "--name", "\x1b[31m"),
            *outputs("--out", ".txt"),
        ),
    ),
    "report": VerbCalls(
        ("report", "{}/model", "--out", "r.html"),
        (
            *ODD_RANKINGS,
            *OUTPUT,
            *OVERLAP[3:],
            *among("--previous", good=("{}/other",), bad=("nothing", "{}")),
            *among("--against", good=("{}/other",), bad=("nothing",)),
            *among(
                "--title",
                good=("<script>alert(1)</script>", "ünï", "x" * 500),
                bad=(),
                odd=("", "\x1b[31m"),
            ),
            *fails("--selection", "nothing.json"),
            *fails("--selection", "{}/log.csv"),
            *fails("--truth", "nothing"),
            *works("{}/log.csv"),
            *fails("nothing.csv"),
            *outputs("--out", ".html"),
            *fails("--depth", "0"),
        ),
        is_slow=True,
    ),
    "simulate": VerbCalls(
        (
            *("simulate", "--out", "w", "--queries", "5", "--docs", "4", "--features", "2"),
            *("--pages", "60", "--positions", "3"),
        ),
        (
            *OUTPUT,
            *seeds(),
            *whole("--queries", "3", "7"),
            *whole("--docs", "3", "6"),
            *whole("--features", "1", "4"),
            *whole("--pages", "30", "100"),
            *whole("--positions", "2", "1"),
            *among(
                "--theta",
                good=("1,.5,.3",),
                bad=("x", "1,2", "", "2,1,1", "nan,1,1", "1;1;1", "-1,1,1"),
            ),
            *choice("--relevance", "label", "beta"),
            *choice("--users", *CLICK_MODELS, "impatient", "personal"),
            *among("--policy-strength", good=("0", "2.5"), bad=(*NOT_NUMBER, "nan", "inf", "-1")),
            *works("--conversions"),
            *among("--dataset", good=(), bad=("nothing", "{}/log.csv", "{}")),
            *outputs("--out"),
        ),
    ),
    "demo": VerbCalls(
        ("demo", "--queries", "50", "--pages", "300", "--out", "d"),
        (*whole("--queries", "50", least=50), *whole("--pages", "300", least=300), *OUTPUT[2:]),
        is_slow=True,
    ),
    "calibrate": VerbCalls(
        ("calibrate", "--worlds", "1", "--families", "sparse", "--jobs", "1"),
        (
            *OUTPUT,
            *whole("--worlds", "1"),
            *among("--families", good=(), bad=("x", "sparse,x", "")),
            *among("--methods", good=(), bad=("x", "marginal,x", "")),
            *among("--shrink", good=("0.7",), bad=(*NOT_NUMBER, "0", "-1", "nan", "inf")),
            *whole("--jobs", "1"),
            *among("--seed", good=("3",), bad=NOT_WHOLE, odd=("-1",)),
        ),
        is_slow=True,
    ),
    "reproduce": VerbCalls(
        ("reproduce", "--out", "R"),
        (
            *among("--preset", good=(), bad=NAMES),
            *among("--dataset", good=(), bad=("x", "", "mslr", "letor")),
            *fails("--path", "nothing"),
            *among("--runs", good=(), bad=(*NOT_WHOLE, "0", "-1")),
            *among("--epochs", good=(), bad=(*NOT_WHOLE, "0", "-1")),
            *among("--methods", good=(), bad=("x", "exact,x", "exact@x", "exact@0", "exact@nan")),
            *among("--only", good=(), bad=("x", "a,x", "figure1")),
            *among("--cells", good=(), bad=("3/2", "x", "0/3", "1/0", "1", "-1/2", "")),
            *among("--jobs", good=(), bad=(*NOT_WHOLE, "0", "-1")),
            *among("--rates", good=(), bad=("nothing.json", "{}/log.csv", "{}")),
            *fails("--tune", "--rates", "{}/bias.csv"),
        ),
        is_slow=True,
    ),
    "benchmark": VerbCalls(
        ("benchmark", "--out", "B", "--quick", "--worlds", "pbm", "--models", "pbm"),
        (
            *among("--worlds", good=(), bad=("x", "pbm,x", "")),
            *among("--models", good=(), bad=("x", "pbm,x", "dbn", "")),
            *among("--data", good=(), bad=("{}",), odd=("nothing", "{}/log.csv")),
            *fails("--worlds", "none", "--data", "nothing"),
            *fails("--worlds", "none", "--data", "{}/truncated"),
            *fails("--worlds", "none", "--data", "{}/plain"),
            *fails("--worlds", "none", "--data", "{}/bytes"),
            *among("--mslr", good=(), bad=("nothing", "{}")),
            *among("--clax", good=(), bad=("nothing", "{}/log.csv")),
            *among("--level", good=(), bad=(*NOT_NUMBER, "0", "1", "nan")),
            *among("--seed", good=(), bad=NOT_WHOLE),
        ),
        is_slow=True,
    ),
}
