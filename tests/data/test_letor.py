"""LETOR text against scikit-learn's parser and plain arrays; errors name the file and line."""

import errno
import gzip
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from epiclick.data import letor, letor_block
from epiclick.data.letor import find_splits, read_letor
from epiclick.errors import InputWarning

from ..raising import raises_code

pytestmark = pytest.mark.slow

FLOAT_MAX = np.finfo(np.float32).max


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def refused(code: str, path: Path) -> str:
    with raises_code(code) as caught:
        read_letor(path)
    return str(caught.value)


# Real data

SAMPLES = {
    "mslr": ({"train": 10_014, "vali": 1_734, "test": 6_117}, 136),
    "clueweb09": ({"train": 15_579, "vali": 5_004, "test": 6_063}, 42),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_read_as_by_scikit_learn(name: str, shared_data) -> None:
    folder = shared_data(name)
    rows, features = SAMPLES[name]
    table = read_letor(folder)
    keys = table.keys.to_pandas()
    assert table.names == tuple(f"f{i}" for i in range(1, features + 1))
    assert keys.groupby("split").size().to_dict() == rows
    assert set(keys.label) == {0, 1, 2, 3, 4}
    assert keys.groupby("query_id").split.nunique().max() == 1
    assert not keys.duplicated(["query_id", "doc_id"]).any()
    for split in rows:
        x, y, queries = load_svmlight_file(str(folder / f"{split}.txt.gz"), query_id=True)
        mine = (keys.split == split).to_numpy()
        np.testing.assert_array_equal(table.matrix[mine], x.toarray().astype(np.float32))
        np.testing.assert_array_equal(keys.label[mine], y)
        np.testing.assert_array_equal(keys.query_id[mine], queries)


def test_facts_of_the_samples(shared_data) -> None:
    mslr = read_letor(shared_data("mslr")).keys.to_pandas()
    queries = mslr.groupby("split").query_id.nunique().to_dict()
    assert queries == {"train": 90, "vali": 18, "test": 54}
    clueweb = read_letor(shared_data("clueweb09"))
    docs = clueweb.keys.to_pandas().groupby("query_id").size()
    assert (docs.min(), docs.max()) == (230, 728)
    assert 0 <= clueweb.matrix.min() < clueweb.matrix.max() <= 1


# Any text of the format

values = st.floats(-1e300, 1e300, allow_nan=False) | st.integers(-5, 5).map(float)
features = st.dictionaries(st.integers(0, 12), values, max_size=6)
line = st.tuples(st.integers(0, 4), st.integers(1, 5), features)
filler = st.sampled_from(["", "", "\n", "# a comment\n", "  \n", "#\n"])
ending = st.sampled_from(["\n", " \n", "\r\n", " # docid = 7 qid:9 1:2\n"])


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(filler, line, ending), min_size=1, max_size=25),
    st.integers(1, 200),
    st.sampled_from(["train.txt", "train.txt.gz"]),
)
def test_any_text_gives_its_rows_whatever_the_blocks(tmp_path_factory, lines, block, name) -> None:
    text = "".join(
        f"{before}{label} qid:{query} {' '.join(f'{i}:{x[i]!r}' for i in sorted(x))}{end}"
        for before, (label, query, x), end in lines
    )
    path = write(tmp_path_factory.mktemp("letor") / name, text)
    rows = [row for _, row, _ in lines]
    indices = {i for *_, x in rows for i in x}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # values beyond float32 have their own test
        patch.setattr(letor, "BLOCK", block)
        if not indices:
            refused("no-features", path)
            return
        table = read_letor(path, cache=False)
    first, last = (0 if 0 in indices else 1), max(indices)
    expected = np.zeros((len(rows), last + 1))
    for row, (*_, x) in zip(expected, rows, strict=True):
        row[list(x)] = list(x.values())
    clipped = np.clip(expected, -FLOAT_MAX, FLOAT_MAX).astype(np.float32)
    np.testing.assert_array_equal(table.matrix, clipped[:, first:])
    assert table.names == tuple(f"f{i}" for i in range(first, last + 1))
    assert table.keys["label"].to_pylist() == [label for label, *_ in rows]
    queries = [query for _, query, _ in rows]
    assert table.keys["query_id"].to_pylist() == queries
    numbers = [queries[:i].count(query) for i, query in enumerate(queries)]
    assert table.keys["doc_id"].to_pylist() == numbers


@given(st.lists(st.text("ab#: \r", max_size=30), max_size=20), st.booleans(), st.integers(1, 90))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_contain_every_line_once(tmp_path_factory, lines, ended, block) -> None:
    data = "\n".join(lines) + "\n" * ended
    folder = tmp_path_factory.mktemp("pieces")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "BLOCK", block)
        for path in (write(folder / "a.txt", data), write(folder / "a.gz", data)):
            stopped: list = []
            pieces = [piece.read() for piece in letor._pieces(path, stopped)]
            assert b"".join(pieces) == data.encode()
            assert all(piece.endswith(b"\n") for piece in pieces[:-1])
            assert stopped == []


def test_many_processes_read_the_same(tmp_path, shared_data, monkeypatch) -> None:
    source = shared_data("clueweb09") / "vali.txt.gz"
    plain = tmp_path / "vali.txt"
    plain.write_bytes(gzip.decompress(source.read_bytes()))
    monkeypatch.setattr(letor, "BLOCK", 100_000)
    alone = read_letor(plain, cache=False)
    monkeypatch.setattr(letor, "PARALLEL", 0)
    for path in (plain, source):
        together = read_letor(path, cache=False)
        np.testing.assert_array_equal(together.matrix, alone.matrix)
        assert together.keys.equals(alone.keys)


def test_types_of_keys_in_a_first_and_a_cached_read(tmp_path: Path) -> None:
    path = write(tmp_path / "set.txt", "1 qid:5 1:2\n0 qid:5 2:3\n127 qid:3 1:1\n")
    for _ in range(2):
        table = read_letor(path)
        assert isinstance(table.matrix, np.memmap)
        assert not table.matrix.flags.writeable
        assert table.keys.schema.types == [pa.int64(), pa.int64(), pa.string(), pa.int8()]
        assert table.keys["split"].to_pylist() == ["train"] * 3
    graded = write(tmp_path / "fine.txt", "0.5 qid:1 1:1\n-1 qid:1 1:2\n128 qid:1 1:2\n")
    assert read_letor(graded).keys["label"].to_pylist() == [0.5, -1, 128]
    assert read_letor(graded).keys.schema.field("label").type == pa.float32()


def test_all_splits_share_their_features(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", "1 qid:1 2:2\n")
    write(tmp_path / "vali.txt", "1 qid:2 0:7\n")
    write(tmp_path / "test.txt", "1 qid:3 4:9\n2.5 qid:3\n")
    table = read_letor(tmp_path)
    assert table.names == ("f0", "f1", "f2", "f3", "f4")
    np.testing.assert_array_equal(
        table.matrix, [[0, 0, 2, 0, 0], [7, 0, 0, 0, 0], [0, 0, 0, 0, 9], [0, 0, 0, 0, 0]]
    )
    assert table.keys["split"].to_pylist() == ["train", "vali", "test", "test"]
    assert table.keys["label"].to_pylist() == [1, 1, 1, 2.5]


def test_values_beyond_float32_are_clipped_and_counted_in_every_read(tmp_path: Path) -> None:
    text = "1 qid:1 1:1.7976931348623157e308 2:3.4028234663852886e38\n0 qid:1 1:1e39 3:-1e300\n"
    path = write(tmp_path / "istella.txt", text)
    for _ in range(2):
        with pytest.warns(InputWarning, match=r"3 values .*\(f1: 2, f3: 1\)"):
            table = read_letor(path)
        np.testing.assert_array_equal(
            table.matrix, [[FLOAT_MAX, FLOAT_MAX, 0], [FLOAT_MAX, 0, -FLOAT_MAX]]
        )


# Where the files are


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train.txt", "vali.txt", "test.txt"], ["train.txt", "vali.txt", "test.txt"]),
        (["Fold1/test.txt", "Fold2/test.txt"], [None, None, "Fold1/test.txt"]),
        (["sample/train.txt", "README.txt"], ["sample/train.txt", None, None]),
        (["train.svm.gz", "valid.tsv", "dev.csv"], ["train.svm.gz", "valid.tsv", None]),
        (["trainingset.txt", "validationset.txt", "testset.txt"],) * 2,
        (
            ["set1.train.txt", "set1.valid.txt", "set1.test.txt", "set2.train.txt"],
            ["set1.train.txt", "set1.valid.txt", "set1.test.txt"],
        ),
        (["train.letor", "dev.letor"], ["train.letor", "dev.letor", None]),
    ],
)
def test_splits_are_found_by_name(tmp_path: Path, names, expected) -> None:
    for name in names:
        write(tmp_path / name, "")
    wanted = dict(zip(("train", "vali", "test"), expected, strict=True))
    found = {
        split: str(file.relative_to(tmp_path)) for split, file in find_splits(tmp_path).items()
    }
    assert found == {split: name for split, name in wanted.items() if name}


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("a.txt", "train"),
        ("set2.test.txt", "test"),
        ("my-valid.gz", "vali"),
        ("latest.txt", "train"),
    ],
)
def test_a_single_file_is_the_split_in_its_name(tmp_path: Path, name: str, split: str) -> None:
    assert list(find_splits(write(tmp_path / name, ""))) == [split]


def test_missing_and_ambiguous_files_are_reported(tmp_path: Path) -> None:
    assert "nowhere" in refused("file-missing", tmp_path / "nowhere")
    assert "train.txt" in refused("no-letor-files", tmp_path)
    write(tmp_path / "train.txt", "")
    write(tmp_path / "train.txt.gz", "")
    assert "train.txt and train.txt.gz" in refused("ambiguous-split", tmp_path)


# Mistakes in a file

GOOD = "1 qid:1 1:0.5 2:3\n"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("x qid:1 1:1", "the label 'x' is not a number"),
        ("nan qid:1 1:1", "the label is not a finite number"),
        ("1 1:1", "no qid:NUMBER after the label"),
        ("1 qid:a 1:1", "'qid:a' is not qid:NUMBER"),
        ("1 qid:99999999999999999999 1:1", "too large"),
        ("1 qid:1 1", "'1' is not INDEX:VALUE"),
        ("1 qid:1 a:1", "'a:1' is not INDEX:VALUE"),
        ("1 qid:1 -1:1", "'-1:1' is not INDEX:VALUE"),
        ("1 qid:1 1:", "'1:' has no number after the colon"),
        ("1 qid:1 1:0,5", "'1:0,5' has no number after the colon"),
        ("1 qid:1 2:1 1:1", "should be sorted and unique"),
        ("1 qid:1 70000:1", "feature index '70000' is above 65535"),
        ("1 qid:1 9999999999:1", "feature index '9999999999' is above 65535"),
        ("\xff\x00" * 50 + " qid:1 1:1", "the label '\\xc3\\xbf\\x00"),
    ],
)
def test_a_malformed_line_is_reported_with_the_reason(tmp_path: Path, bad: str, why: str) -> None:
    path = write(tmp_path / "train.txt", f"# head\n\n{GOOD}{bad}\n{GOOD}")
    message = refused("malformed-line", path)
    assert ": 1 line, first train.txt line 4: " in message
    assert why in message


@pytest.mark.parametrize("block", [1, 40, 1 << 20])
def test_problems_of_all_splits_are_reported_together(tmp_path: Path, monkeypatch, block) -> None:
    monkeypatch.setattr(letor, "BLOCK", block)
    lines = [GOOD] * 40
    lines[6] = lines[23] = "no letor\n"
    lines[9] = "# a comment\n"
    write(tmp_path / "train.txt", "".join(lines))
    nan = [f"1 qid:2 1:{i} 2:1 # {i}\n" for i in range(30)]
    nan[4] = nan[21] = "1 qid:2 1:nan 2:-inf\n"
    nan[8] = "\n"
    nan[25] = "1 qid:2 2:inf\n"
    write(tmp_path / "test.txt.gz", "".join(nan))
    with raises_code("malformed-line") as caught:
        read_letor(tmp_path)
    lines_of_train, values_of_test = caught.value.problems
    assert "2 lines, first train.txt line 7: the label 'no'" in str(lines_of_train)
    assert "train.txt line 24: the label 'no'" in str(lines_of_train)
    assert values_of_test.code == "feature-not-finite"
    message = str(values_of_test)
    assert "5 values, first f1: 2 (nan in test.txt.gz line 5); f2: 3 (-inf in" in message
    assert "test.txt.gz line 5)." in message


def test_a_file_that_is_not_letor_at_all_is_refused_early(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(letor, "BLOCK", 1 << 18)
    path = write(tmp_path / "train.txt", "a,b,c,d\n" * 100_000)
    began = time.perf_counter()
    message = refused("malformed-line", path)
    assert "(counting stopped early)" in message
    assert f"{letor_block.BAD_LINES * 4:,} lines" in message
    assert time.perf_counter() - began < 10


def test_a_query_in_two_splits_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", "1 qid:1 1:1\n1 qid:2 1:1\n1 qid:3 1:1\n")
    write(tmp_path / "test.txt", "1 qid:3 1:1\n1 qid:4 1:1\n1 qid:2 1:1\n")
    message = refused("query-in-two-splits", tmp_path)
    assert "train and test: 2 query ids, first qid:2; qid:3." in message


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    packed = gzip.compress("".join(f"1 qid:{i} 1:{i * 0.37}\n" for i in range(9_999)).encode())
    path = tmp_path / "train.txt.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert "train.txt.gz" in refused("damaged-file", path)
    path.write_bytes(packed[:2_000] + b"\0" * 50 + packed[2_050:])
    assert "train.txt.gz" in refused("damaged-file", path)
    message = refused("truncated-file", write(tmp_path / "vali.txt", GOOD * 3 + "1 qid:1 1:0."))
    assert "vali.txt" in message
    assert "feature 1" in message
    whole = write(tmp_path / "test.txt", (GOOD * 3).rstrip("\n"))
    assert len(read_letor(whole)) == 3
    sparse = write(tmp_path / "sparse.txt", "1 qid:1 1:1 2:3\n1 qid:1 1:3\n1 qid:1 1:1")
    assert len(read_letor(sparse)) == 3


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "train.txt", GOOD)

    def denied(file: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr(letor, "_is_gzip", denied)
    assert f"{path} cannot be read (Permission denied)" in refused("cannot-read", path)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_empty_files_are_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path / "train.txt", GOOD)
    write(tmp_path / "test.txt", text)
    assert "test.txt" in refused("no-rows", tmp_path)


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor, "MAX_LINE", 1_000)
    monkeypatch.setattr(letor, "BLOCK", 10)
    for name in ("train.txt", "train.txt.gz"):
        path = write(tmp_path / name, GOOD + "x" * 5_000)
        message = refused("line-too-long", path)
        assert name in message
        assert "1,000 bytes" in message


# Processes

SCRIPT = """
import epiclick.data.letor as letor_text
from epiclick import read_letor
letor_text.PARALLEL, letor_text.BLOCK = {parallel}, 20_000
print("started", flush=True)
print(len(read_letor({path!r})), flush=True)
"""


def start(path: Path, folder: Path, *, parallel: bool) -> subprocess.Popen:
    """A script, without a main guard, that reads a file."""
    script = folder / "script.py"
    script.write_text(SCRIPT.format(path=str(path), parallel=0 if parallel else 1 << 40))
    environment = {**os.environ, "EPICLICK_CACHE": str(folder / "cache")}
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(script)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_scripts_that_race_for_one_entry_both_read_it(tmp_path: Path) -> None:
    path = write(tmp_path / "train.txt", "".join(f"1 qid:{i} 1:{i}\n" for i in range(5_000)))
    both = [start(path, tmp_path, parallel=False) for _ in range(2)]
    for script in both:
        out, err = script.communicate(timeout=60)
        assert out.split() == ["started", "5000"], err
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path) -> None:
    path = write(tmp_path / "train.txt", "1 qid:1 1:1 2:2 3:3 4:4 5:5\n" * 600_000)
    script = start(path, tmp_path, parallel=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("cache/.*/*.npy")):
        assert time.monotonic() < deadline
        assert script.poll() is None
        time.sleep(0.02)
    os.killpg(script.pid, signal.SIGINT)
    out, err = script.communicate(timeout=60)
    assert script.returncode != 0
    assert out.split() == ["started"]  # the workers did not run the script again
    assert "KeyboardInterrupt" in err
    assert list((tmp_path / "cache").iterdir()) == []
