"""A condition selects rows by their own values; it cannot access anything else."""

from pathlib import Path

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from epiclick.data.by_column import marked_and_rest
from epiclick.data.engine import connect
from epiclick.data.readers import read_log
from epiclick.data.schema import LogOptions
from epiclick.data.sources import open_source
from epiclick.data.where import select_where
from epiclick.errors import InputError

from ..raising import raises_code

pytestmark = pytest.mark.slow

LEGITIMATE = """
position <= 2
click = 1 AND NOT position IN (1, 2)
click == 1 OR position != 3
country = 'NL'
country <> 'NL'
country IN ('NL', 'BE')
country NOT IN ('NL', 'BE')
(country, position) IN (('NL', 1), ('BE', 2))
country LIKE 'N%'
country NOT ILIKE 'n%'
country LIKE 'N!_%' ESCAPE '!'
country SIMILAR TO 'NL|BE'
country GLOB 'N*'
country ~ 'N.'
country !~ 'N.'
regexp_matches(country, '^N')
regexp_full_match(country, 'N.')
regexp_extract(country, '(N)(.)', 2) = 'L'
regexp_replace(country, 'N', 'M') = 'ML'
note IS NULL
note IS NOT NULL
note ISNULL OR note NOTNULL
note IS DISTINCT FROM 'a'
price BETWEEN 1 AND 2.5
price NOT BETWEEN 1 AND 2.5
price * 2 + 1 > 4 - position / 2
price // 1 = 2
position % 2 = 1
position ** 2 > 3
2 * position ^ 2 > 7
-position < -1
abs(price - 2) < 0.5
round(price, 1) = 2.0
floor(price) = 2 OR ceil(price) = 2
greatest(price, position) > 2
mod(position, 2) = 1
hash(page_id) % 10 < 5
(position & 1) = 1
(position << 1) > 2
country || '-' || position = 'NL-1'
concat(country, position) = 'NL1'
lower(trim(country)) = 'nl'
upper(country) = 'BE' AND length(country) = 2
substr(country, 1, 1) = 'N'
substring(country from 1 for 1) = 'N'
left(country, 1) = 'N' OR right(country, 1) = 'E'
contains(country, 'L') AND starts_with(country, 'N') AND NOT ends_with(country, 'E')
position('L' in country) > 0
strpos(country, 'L') = 2
split_part(note, '-', 1) = 'a'
replace(country, 'N', 'M') = 'ML'
coalesce(note, 'none') = 'none'
ifnull(note, 'none') = 'none'
nullif(note, 'a-b') IS NULL
CASE WHEN position = 1 THEN click = 1 ELSE price > 2 END
if(position = 1, click = 1, price > 2)
CAST(position AS VARCHAR) = '1'
position::DOUBLE = 1.0
TRY_CAST(note AS INTEGER) IS NULL
CAST(price AS DECIMAL(10, 2)) = 2.00
day >= DATE '2026-01-02'
day >= '2026-01-02'
day < DATE '2026-01-03' - INTERVAL 1 DAY
day > current_date - 10000
seen < now() - INTERVAL '1 minute'
seen >= TIMESTAMP '2026-01-02 00:00:00'
extract(hour from seen) < 12
date_part('hour', seen) < 12
date_trunc('day', seen) = DATE '2026-01-02'
date_diff('day', day, DATE '2026-01-04') < 2
date_add(day, INTERVAL 1 DAY) > DATE '2026-01-03'
year(day) = 2026 AND month(day) = 1 AND dayofweek(day) < 7
strftime(day, '%d') = '02'
make_date(2026, 1, 2) = day
seen AT TIME ZONE 'UTC' > TIMESTAMPTZ '2026-01-02 00:00:00Z'
"position" = 1
log.position = 1
TRUE
isnan(price) OR isfinite(price)
position = 1 -- the first
position = 1 /* the first */
""".strip().splitlines()

HOSTILE = """
EXISTS(SUMMARIZE '{probe}')
EXISTS(DESCRIBE '{probe}')
EXISTS(DESCRIBE SELECT * FROM '{probe}')
EXISTS(SHOW TABLES)
EXISTS(PRAGMA version)
EXISTS(CALL pragma_version())
EXISTS(SELECT 1 FROM '{probe}')
EXISTS(FROM '{probe}')
EXISTS(FROM read_text('{probe}'))
EXISTS(VALUES (1))
EXISTS(TABLE log)
EXISTS(WITH q AS (SELECT 1) SELECT * FROM q)
(SELECT count(*) FROM glob('{probe}')) > 0
(FROM read_blob('{probe}')) IS NOT NULL
click IN (SELECT 1)
click IN (FROM '{probe}')
click IN (SUMMARIZE '{probe}')
click = ALL (SELECT 1)
click = ANY (FROM read_csv('{probe}'))
ARRAY(SELECT 1) IS NOT NULL
read_text('{probe}') IS NOT NULL
system.main.read_text('{probe}') = 'x'
getenv('HOME') = 'x'
current_setting('home_directory') = 'x'
current_database() = 'x'
current_user = 'x'
version() = 'x'
getvariable('x') = 1
nextval('x') = 1
query('SELECT 1') = 1
query_table('log') = 1
st_point(1, 2) IS NOT NULL
icu_sort_key(country, 'de') = 'x'
write_log('x') IS NULL
random() < 0.5
uuid() = country
repeat('x', 1000000000) = country
printf('%s', country) = 'x'
unnest([1, 2]) = 1
generate_series(1, 3) IS NOT NULL
count(*) > 1
max(click) = 1
sum(click) OVER () > 1
row_number() OVER () = 1
bool_or(click = 1)
list_transform([1], x -> x + 1) IS NOT NULL
list_transform([1], lambda x: x + 1) IS NOT NULL
[x for x in [1]] IS NULL
click = $1
click = ?
click = $name
#1 = 1
* = 1
COLUMNS(*) = 1
COLUMNS('c.*') = 1
country::GEOMETRY IS NULL
country::mytype IS NULL
CAST(country AS STRUCT(x INT)) IS NULL
rowid = 1
filename = '{probe}'
main.log.click = 1
1 = 1) UNION SELECT * FROM read_text('{probe}') WHERE (1 = 1
1 = 1); COPY log TO '{probe}'; SELECT (1
1 = 1); ATTACH '{probe}'; SELECT (1
1 = 1) OR (click = 1
1 = 1) GROUP BY (click
1 = 1) LIMIT (1
1 = 1) QUALIFY (1 = 1
1 = 1, 2 = 2
SET threads = 1
/* /* */ EXISTS(FROM '{probe}') OR -- */ */
{{# EXISTS(FROM '{probe}') #}} 1 = 1
""".strip().splitlines()


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Forty pages of three results, with columns of every plain type."""
    page, position = np.repeat(np.arange(40), 3), np.tile([1, 2, 3], 40)
    return pd.DataFrame(
        {
            "page_id": page,
            "query_id": page % 4,
            "doc_id": page % 4 * 10 + position,
            "position": position,
            "click": (page * 7 + position * 3) % 5 == 0,
            "country": np.array(["NL", "BE", "DE"])[page % 3],
            "note": np.array(["a-b", None, "c"], object)[page % 3],
            "price": 0.5 + position * 0.75,
            "day": pd.to_datetime("2026-01-01") + pd.to_timedelta(page % 3, "D"),
            "seen": pd.to_datetime("2026-01-01") + pd.to_timedelta(page, "h"),
        }
    ).astype({"click": int})


@pytest.fixture(scope="module")
def table(rows: pd.DataFrame) -> pa.Table:
    days = pa.array(rows["day"].dt.date)
    found = pa.Table.from_pandas(rows)
    return found.set_column(found.column_names.index("day"), "day", days)


@pytest.mark.parametrize("condition", LEGITIMATE)
def test_a_condition_means_the_same_as_in_plain_duckdb(condition: str, table: pa.Table) -> None:
    chosen = select_where(open_source(table), condition).count().to_pyarrow().as_py()
    with duckdb.connect() as plain:
        plain.register("log", table)
        query = f"SELECT count(*) FROM log WHERE ({condition}\n)"
        assert chosen == plain.execute(query).fetchall()[0][0]


@pytest.mark.parametrize("condition", HOSTILE)
def test_a_hostile_condition_is_refused_and_reveals_nothing(
    condition: str, rows: pd.DataFrame, tmp_path: Path
) -> None:
    rows.to_parquet(tmp_path / "log.parquet")
    messages = []
    for exists in (True, False):
        if exists:
            (tmp_path / "probe.csv").write_text("a\n1\n")
        else:
            (tmp_path / "probe.csv").unlink()
        where = condition.format(probe=tmp_path / "probe.csv")
        with pytest.raises(InputError, match="where") as caught:
            read_log(tmp_path / "log.parquet", where=where)
        assert caught.value.code in ("invalid-condition", "forbidden-condition", "unknown-column")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("EXISTS(SUMMARIZE 'x')", "a subquery"),
        ("read_text('x') = 'y'", "the function read_text"),
        ("sum(click) > 1", "the aggregate sum"),
        ("click = ?", "a parameter"),
        ("country::GEOMETRY IS NULL", "the type GEOMETRY"),
        ("row_number() OVER () = 1", "the syntax window"),
    ],
)
def test_what_is_refused_is_named(condition: str, named: str, table: pa.Table) -> None:
    with raises_code("forbidden-condition") as caught:
        select_where(open_source(table), condition)
    assert f"without {named}: " in str(caught.value)


def test_an_error_of_the_engine_keeps_its_code_and_names_the_condition(table: pa.Table) -> None:
    with raises_code("source-unreadable") as caught:
        select_where(open_source(table), "abs(country) > 1")
    assert "abs(country) > 1" in str(caught.value)


@pytest.mark.parametrize(
    "condition",
    ["(" * 5000 + "click" + ")" * 5000, "NOT " * 5000 + "click", "click = " + "- " * 5000 + "1"],
)
def test_conditions_beyond_the_parser_are_refused(condition: str, table: pa.Table) -> None:
    with raises_code("invalid-condition") as caught:
        select_where(open_source(table), condition)
    assert len(str(caught.value)) < 500


def test_marked_rows_cannot_be_selected_by_a_hostile_condition(table: pa.Table) -> None:
    marked = table.append_column("random", pa.array(np.arange(len(table)) % 2))
    hostile = {
        "click = 1) OR (position = 1": "invalid-condition",
        "EXISTS(SUMMARIZE 'x')": "forbidden-condition",
    }
    for where, code in hostile.items():
        with raises_code(code):
            marked_and_rest(marked, LogOptions(where=where), "random")
    for condition in marked_and_rest(marked, LogOptions(where="click = 1"), "random"):
        select_where(open_source(marked), condition)


@pytest.fixture(params=["log.parquet", "x[1]*.parquet", "it's.csv", "log.jsonl"])
def opened(request: pytest.FixtureRequest, rows: pd.DataFrame, tmp_path: Path) -> ibis.Table:
    path = tmp_path / request.param
    if path.suffix == ".parquet":
        rows.to_parquet(path)
    elif path.suffix == ".csv":
        rows.to_csv(path, index=False)
    else:
        rows.drop(columns=["day", "seen"]).to_json(path, orient="records", lines=True)
    (tmp_path / "other.csv").write_text("a\n1\n")
    return open_source(path).table


def test_the_engine_reads_the_log_and_nothing_else(opened: ibis.Table, tmp_path: Path) -> None:
    assert opened.count().to_pyarrow().as_py() == 120
    other = tmp_path / "other.csv"
    query = f"SELECT * FROM read_csv('{other}')"
    assert ibis.duckdb.connect().raw_sql(query).fetchall() == [(1,)]
    engine = opened.get_backend()
    for asked in (
        query,
        f"FROM '{other}'",
        f"FROM glob('{tmp_path}/*')",
        f"COPY (SELECT 1) TO '{tmp_path}/new.csv'",
        f"ATTACH '{tmp_path}/new.db'",
        "FROM read_csv('https://example.org/x.csv')",
        "INSTALL spatial",
        "LOAD spatial",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET autoload_known_extensions = true",
        "SELECT st_point(1, 2)",
    ):
        with pytest.raises(duckdb.Error):
            engine.raw_sql(asked).fetchall()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("new")) == []


def test_the_engine_of_a_frame_reads_no_file(table: pa.Table, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a\n1\n")
    for engine in (open_source(table).table.get_backend(), connect()):
        with pytest.raises(duckdb.PermissionException):
            engine.raw_sql(f"SELECT * FROM read_csv('{tmp_path}/other.csv')")


def test_a_users_own_connection_is_not_changed(table: pa.Table) -> None:
    own = ibis.duckdb.connect()
    own.con.register("displays", table)
    read_log(own.table("displays"), where="country = 'NL'")
    own.raw_sql("SET threads = 1")
    names = "('enable_external_access', 'lock_configuration')"
    query = f"SELECT name, value FROM duckdb_settings() WHERE name IN {names} ORDER BY name"
    assert own.raw_sql(query).fetchall() == [
        ("enable_external_access", "true"),
        ("lock_configuration", "false"),
    ]
