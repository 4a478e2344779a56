"""The engine stops on an interrupt, and its errors become ours."""

import os
import signal
import subprocess
import sys
import threading

import ibis
import pytest

from epiclick.data.engine import connect, engine_errors, stoppable
from epiclick.errors import InputError

from ..raising import raises_code


def test_an_interrupt_stops_a_query_that_would_run_for_hours() -> None:
    connection = connect()
    endless = connection.sql("SELECT sum(hash(range)) AS total FROM range(1_000_000_000_000)")
    before = signal.getsignal(signal.SIGINT)
    interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))

    def run() -> None:
        with stoppable(endless):
            interrupt.start()
            endless.to_pyarrow()

    with pytest.raises(KeyboardInterrupt):
        run()
    assert signal.getsignal(signal.SIGINT) is before
    # the connection can be used again
    assert connection.sql("SELECT 1 AS one").to_pyarrow()["one"].to_pylist() == [1]


def test_other_threads_keep_their_own_signals() -> None:
    table = connect().sql("SELECT 1 AS one")
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with stoppable(table):
            seen.append(signal.getsignal(signal.SIGINT) is before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True]


def test_an_error_of_the_engine_names_the_input_and_its_own_reason() -> None:
    connection = connect()
    with raises_code("source-unreadable") as caught, engine_errors("my log"):
        connection.raw_sql("SELECT * FROM nothing")
    assert str(caught.value).startswith("my log ")
    assert "nothing" in str(caught.value)


def test_a_full_memory_is_not_blamed_on_the_input() -> None:
    connection = ibis.duckdb.connect(memory_limit="20MB", max_temp_directory_size="0MB")
    with pytest.raises(Exception, match=r"Out of Memory|memory") as caught, engine_errors("my log"):
        connection.raw_sql("SELECT list(range) FROM range(100_000_000)").fetchall()
    assert not isinstance(caught.value, InputError)


def test_the_engine_draws_nothing_onto_standard_output() -> None:
    """DuckDB treats `python -c` and notebooks as a terminal, and would draw into their output."""
    code = (
        "from epiclick.data.engine import connect\n"
        "asked = \"SELECT current_setting('enable_progress_bar')\"\n"
        "print(connect().con.execute(asked).fetchone()[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
