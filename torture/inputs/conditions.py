"""Campaign: conditions that want more than the values of a row, with system calls recorded.

A condition may come from elsewhere, in a model or a script. Whatever it says, the process must not
open, create, remove or start anything that it would not for a harmless condition.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import ClassVar

from torture.campaign import Campaign, Case, Result
from torture.inputs.click_log import random_log, write
from torture.program import call

CANARY = "canary"
"""Part of the name of every file that hostile conditions ask for: nobody else does."""

CALLS = "openat,open,creat,connect,execve,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat"
CALLS += ",newfstatat,statx,access,faccessat,faccessat2,readlink,inotify_add_watch"

HOSTILE = (
    "1=1) UNION SELECT * FROM read_csv('{file}') --",
    "click IN (SELECT 1 FROM read_csv('{file}'))",
    "click IN (SELECT 1 FROM '{file}')",
    "EXISTS (SELECT * FROM read_parquet('{file}'))",
    "EXISTS (FROM read_text('{file}'))",
    "click = (SELECT count(*) FROM read_blob('{file}'))",
    "click < (SELECT count(*) FROM glob('{folder}/*{name}*'))",
    "click < len(read_text('{file}'))",
    "read_text('{file}') IS NOT NULL",
    "content('{file}') = ''",
    "1=1; COPY log TO '{file}'",
    "1=1); COPY log TO '{file}'; SELECT (1",
    "1=1; EXPORT DATABASE '{file}'",
    "1=1; ATTACH '{file}' AS other",
    "1=1; INSTALL '{file}'",
    "1=1; LOAD '{file}'",
    "1=1; CREATE TABLE t AS SELECT * FROM read_csv_auto('{file}')",
    "1=1; DROP TABLE log",
    "1=1; DELETE FROM log",
    "1=1; UPDATE log SET click = 0",
    "1=1; SET home_directory='{file}'",
    "1=1; SET extension_directory='{file}'",
    "1=1; PRAGMA database_list",
    "1=1; IMPORT DATABASE '{file}'",
    "1=1; CALL pragma_version()",
    "getenv('HOME') <> ''",
    "current_setting('home_directory') <> ''",
    "getvariable('{file}') IS NULL",
    "query_table('{file}') IS NULL",
    "click IN (SELECT click FROM query('SELECT * FROM ''{file}'''))",
    "click = ANY (SELECT 1 FROM '{file}')",
    "click = (TABLE '{file}')",
    "click IN (WITH t AS (SELECT * FROM '{file}') SELECT 1 FROM t)",
    "CASE WHEN click = 1 THEN EXISTS (SELECT 1 FROM '{file}') ELSE TRUE END",
    "coalesce(click, (SELECT 1 FROM '{file}')) = 1",
    "list_transform([1], x -> (SELECT 1 FROM '{file}'))[1] = 1",
    "sqlite_scan('{file}', 't') IS NULL",
    "click IN (SELECT 1 FROM sqlite_scan('{file}', 't'))",
    "click IN (SELECT 1 FROM postgres_scan('host=127.0.0.1', 's', '{file}'))",
    "click IN (SELECT 1 FROM read_json('https://127.0.0.1/{name}'))",
    "click IN (SELECT 1 FROM read_csv('/proc/self/environ', delim='{name}'))",
    "click IN (SELECT 1 FROM duckdb_settings() WHERE value = '{file}')",
    "click IN (SELECT 1 FROM information_schema.tables WHERE table_name <> '{name}')",
    "nextval('{name}') = 1",
    "error('{file}') IS NULL",
    "write_log('{file}') IS NULL",
    "parse_path('{file}') IS NOT NULL",
    "position = position) /* {file} */ OR (1=1",
    "'{file}'::json IS NULL",
    "CAST('{file}' AS geometry) IS NULL",
    "log.main.position = 1",
    "system('touch {file}') = 0",
    "shell('touch {file}') = 0",
    "load_extension('{file}')",
    "readfile('{file}') IS NULL",
    "writefile('{file}', 'x') > 0",
    "lo_import('{file}') > 0",
    "pg_read_file('{file}') <> ''",
    "xp_cmdshell('touch {file}') = 0",
    "java_method('java.lang.System', 'getenv', '{name}') <> ''",
    "reflect('java.lang.Runtime', 'exec', 'touch {file}') IS NULL",
    "$1 = '{file}'",
    "? = '{file}'",
    "COLUMNS('{name}') = 1",
    "* EXCLUDE (click) = 1 OR '{file}' = ''",
    "count(*) OVER () > 0 OR EXISTS (SELECT 1 FROM '{file}')",
    "sum(click) > 0 AND '{file}' <> ''",
    "unnest(['{file}']) <> ''",
    "position IN (1, 2) LIMIT 1; SELECT '{file}'",
    "position = 1 QUALIFY EXISTS (SELECT 1 FROM '{file}')",
    "position = 1 GROUP BY ALL HAVING EXISTS (SELECT 1 FROM '{file}')",
    "position = 1 ORDER BY (SELECT 1 FROM '{file}')",
    "position = 1 WINDOW w AS (ORDER BY (SELECT 1 FROM '{file}'))",
    "md5_number(read_text('{file}')) = 0",
    "hash((SELECT content FROM read_text('{file}'))) = 0",
    "regexp_replace('a', 'a', (SELECT content FROM read_text('{file}'))) = ''",
)
HARMLESS = (
    "position <= 2 OR query_id = '{file}'",
    "query_id <> '{file}' AND click IN (0, 1)",
    "NOT contains(query_id, '{name}')",
    "CASE WHEN position = 1 THEN click = 1 ELSE query_id <> '{file}' END",
    "length(replace(query_id, '{file}', '')) > 0 AND position BETWEEN 1 AND 3",
    "coalesce(device, '{file}') LIKE '%'",
)


class Conditions(Campaign):
    """Each condition as it is, and changed a little, on logs of several kinds."""

    name = "conditions"
    floors: ClassVar = {"count": 0.1}

    def __init__(self, cases: int) -> None:
        """Run this many cases."""
        self.cases = cases

    def prepare(self, stock: Path) -> None:
        """One log of each kind."""
        rows = random_log(Random("conditions"))
        for kind in ("csv", "jsonl", "parquet"):
            write(rows, stock / f"log.{kind}", kind)

    def size(self, stock: Path) -> int:
        """As asked for, and none where system calls cannot be recorded."""
        return self.cases if shutil.which("strace") else 0

    def run(self, case: Case) -> Result:
        """Count a log under one condition."""
        rng, kind = case.rng, case.rng.choice(("csv", "jsonl", "parquet"))
        pool = HOSTILE + 4 * HARMLESS
        pattern = pool[case.number % len(pool)]
        condition, changed = filled(pattern, case.folder), ""
        if case.number >= len(pool):
            change = rng.choice(CHANGES)
            condition, changed = change(rng, condition), change.__name__
        trace = case.folder / "trace"
        source, out = case.stock / f"log.{kind}", case.folder / "counts.parquet"
        words = ("count", source, "--where", condition, "--out", out, "--json")
        ended = call(*words, folder=case.folder, before=lambda: record_calls(trace))
        what = f"{kind}: {condition[:120]} {changed}".strip()
        calls = trace.read_text("utf-8", "replace") if trace.exists() else ""
        if "openat(" not in calls:
            return Result("count", what, "failed", "the recorder has recorded nothing")
        if touched := [line for line in calls.splitlines() if CANARY in line]:
            return Result("count", what, "failed", f"asked for: {touched[0][:200]}")
        if started := re.findall(r"execve\(.*|connect\(.*sa_family=AF_INET.*", calls):
            return Result("count", what, "failed", f"started or connected: {started[0][:200]}")
        if ended.fault:
            return Result("count", what, "failed", ended.fault)
        if ended.is_refused:
            if out.exists():
                return Result("count", what, "failed", "refused, but a file was written")
            if pattern in HARMLESS and not changed:
                return Result("count", what, "failed", f"harmless, but refused: {ended.err[-300:]}")
            return Result("count", what, "refused")
        if pattern in HOSTILE and not changed:
            return Result("count", what, "failed", "a hostile condition was run")
        return Result("count", what, "accepted")


def filled(pattern: str, folder: Path) -> str:
    """A condition that asks for files of a folder."""
    # strace shortens nothing we look for, and the name of the case's own files has no canary
    name = f"{CANARY}-7f3a"
    return pattern.format(file=folder / f"{name}.csv", folder=folder, name=name)


def record_calls(trace: Path) -> None:
    """Record the system calls of this process and its threads from here on."""
    recorder = subprocess.Popen(
        ["strace", "-f", "-s", "400", "-e", f"trace={CALLS}", "-o", trace, "-p", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    status = Path("/proc/self/status")
    while "TracerPid:\t0\n" in status.read_text():
        assert recorder.poll() is None, "strace could not attach"
        time.sleep(0.002)


def spaced(rng: Random, text: str) -> str:
    """Spaces are comments or line breaks."""
    return text.replace(" ", rng.choice(("/**/", "\n", "\t", " -- \n")))


def in_other_case(rng: Random, text: str) -> str:
    """Keywords in another case; names of files stay as they are."""
    return "".join(
        part
        if CANARY in part or "/" in part
        else "".join(rng.choice((c, c.swapcase())) for c in part)
        for part in re.split(r"('[^']*')", text)
    )


def in_brackets(rng: Random, text: str) -> str:
    """As part of a larger condition."""
    return rng.choice(("({0})", "(1 = 1) AND ({0})", "NOT ({0})", "click = 1 OR {0}")).format(text)


def nested(rng: Random, text: str) -> str:
    """Within very many brackets."""
    depth = rng.choice((5, 60, 2000))
    return "(" * depth + text + ")" * depth


def quoted_otherwise(_: Random, text: str) -> str:
    """Dollar quotes in place of plain ones."""
    return re.sub(r"'([^']*)'", r"$$\1$$", text)


def with_a_piece_less(rng: Random, text: str) -> str:
    """A character is missing."""
    at = rng.randrange(len(text))
    return text[:at] + text[at + 1 :]


def with_an_odd_sign(rng: Random, text: str) -> str:
    """A character more."""
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice("'\";()-$?\\%{}[]\u00a0\u202e`#@!") + text[at:]


CHANGES: tuple[Callable[[Random, str], str], ...] = (
    spaced,
    in_other_case,
    in_brackets,
    nested,
    quoted_otherwise,
    with_a_piece_less,
    with_an_odd_sign,
)
