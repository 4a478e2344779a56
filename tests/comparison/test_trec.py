"""TREC run files: read as written, oddities noted, bad lines counted."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from epiclick.comparison.rankings import Ranking, read_ranking
from epiclick.errors import InputError

from ..raising import raises_code
from .planted import list_queries

Lists = dict[str, list[str]]


def lists(seed: int = 0) -> Lists:
    rng = np.random.default_rng(seed)
    return {
        f"q{query}": [f"D-{doc}" for doc in rng.permutation(30)[: rng.integers(1, 12)]]
        for query in range(8)
    }


def lines(given: Lists, first: int = 1, sign: int = -1) -> list[str]:
    return [
        f"{query} Q0 {doc} {rank} {sign * rank / 3} tag"
        for query, docs in given.items()
        for rank, doc in enumerate(docs, first)
    ]


def write(path: Path, rows: list[str], end: str = "\n") -> Path:
    path.write_bytes("".join(row + end for row in rows).encode())
    return path


def as_lists(ranking: Ranking) -> Lists:
    found: Lists = {}
    for query, doc in zip(ranking.query_id.to_pylist(), ranking.doc_id.to_pylist(), strict=True):
        found.setdefault(query, []).append(doc)
    return found


def refused(source, code: str, **options) -> str:
    """The message with which a run is refused under a code."""
    with raises_code(code) as error:
        read_ranking(source, "new", **options)
    return str(error.value)


@pytest.mark.parametrize("name", ["a.run", "b.TREC", "c.res", "d.txt"])
def test_a_run_comes_back_as_it_was_written(name, tmp_path):
    given = lists()
    rows = lines(given)
    np.random.default_rng(1).shuffle(rows)
    for source in (write(tmp_path / name, rows), str(tmp_path / name)):
        ranking = read_ranking(source, "new")
        assert as_lists(ranking) == given
        assert ranking.notes == ()
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert as_lists(read_ranking(packed, "new")) == given


def test_any_whitespace_separates_columns_and_lines_may_be_blank(tmp_path):
    given = lists()
    rows = [row.replace(" ", "\t  ") for row in lines(given)]
    path = write(tmp_path / "a.run", ["", *(f" {row} " for row in rows), "  "], "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().rstrip())
    assert as_lists(read_ranking(path, "new")) == given


def test_depth_cuts_a_run(tmp_path):
    given = lists()
    ranking = read_ranking(write(tmp_path / "a.run", lines(given)), "new", depth=2)
    assert as_lists(ranking) == {query: docs[:2] for query, docs in given.items()}
    assert "deeper than position 2" in ranking.notes[0]


def test_the_rank_is_used_where_the_order_by_score_differs(tmp_path):
    given = {"q1": ["a", "b"], "q2": ["c"], "q3": ["d", "e", "f"]}
    ranking = read_ranking(write(tmp_path / "a.run", lines(given, sign=1)), "new")
    assert as_lists(ranking) == given
    (note,) = ranking.notes
    assert note == (
        "in 2 of 3 queries the order by score differs from that by rank; the rank was used"
    )


def test_equal_scores_do_not_contradict_ranks(tmp_path):
    ranking = read_ranking(write(tmp_path / "a.run", lines({"q": ["b", "a"]}, sign=0)), "new")
    assert as_lists(ranking) == {"q": ["b", "a"]}
    assert ranking.notes == ()


def test_ranks_from_0_are_shifted_only_if_all_are(tmp_path):
    given = lists()
    ranking = read_ranking(write(tmp_path / "a.run", lines(given, first=0)), "new")
    assert as_lists(ranking) == given
    assert ranking.contexts["position"].to_pylist()[0] == 1
    assert ranking.notes == ("ranks start at 0 in all queries, so 1 was added to each",)
    mixed = lines({"q1": ["b", "a"]}, first=0) + lines({"q2": ["d", "c"]})
    ranking = read_ranking(write(tmp_path / "b.run", mixed), "new")
    assert as_lists(ranking) == {"q1": ["b", "a"], "q2": ["d", "c"]}
    assert "ordered by score" in ranking.notes[0]


def test_scores_decide_where_ranks_are_no_numbering(tmp_path):
    rows = ["q Q0 a 1 0.5 t", "q Q0 b 1 2e1 t", "q Q0 c 1 0.5 t"]
    ranking = read_ranking(write(tmp_path / "a.run", rows), "new")
    assert as_lists(ranking) == {"q": ["b", "a", "c"]}
    assert "as trec_eval does" in ranking.notes[0]
    assert ranking.notes[1].startswith("2 of 3 slots")


def test_ids_of_a_run_have_the_types_of_text_logs(tmp_path):
    path = write(tmp_path / "a.run", lines({"7": ["1", "2"], "12": ["3"]}))
    ranking = read_ranking(path, "new")
    assert (ranking.query_id.type, ranking.doc_id.type) == (pa.int64(), pa.int64())
    assert list_queries(ranking) == [7, 12]
    ranking = read_ranking(path, "new", ids="string")
    assert list_queries(ranking) == ["12", "7"]
    path = write(tmp_path / "b.run", lines({"7": ["1", "x"]}))
    with pytest.raises(InputError, match="doc_id must be an integer: 1 value"):
        read_ranking(path, "new", ids="integer")


def test_bad_lines_are_counted_and_the_first_is_named(tmp_path):
    rows = lines({"q": list("abcdefgh")})
    rows[1] = "q Q0 b 2 0.5"
    rows[2] = "q Q0 c 3 0.5 my tag"
    rows[3] = "q Q0 d fourth 0.5 tag"
    rows[5] = "q Q0 f 6 nan tag"
    rows[6] = "q Q0 g 7 1e999 tag"
    rows.insert(0, "")
    with raises_code("malformed-line") as error:
        read_ranking(write(tmp_path / "a.run", rows), "new")
    found = {problem.code: str(problem) for problem in error.value.problems}
    assert ": 2 lines, first line 3: 5 columns." in found["malformed-line"]
    assert ": 1 line, first line 5: rank 'fourth'" in found["rank-not-whole"]
    assert ": 2 lines, first line 7: score 'nan'" in found["score-not-finite"]
    # the remaining lines have gaps, which are not what is wrong
    assert len(error.value.problems) == 3


def test_invalid_runs_are_refused(tmp_path):
    assert "a.run" in refused(tmp_path / "a.run", "file-missing")
    refused(write(tmp_path / "c.run", ["", ""]), "empty-ranking")
    path = write(tmp_path / "f.run", lines({"q": ["a", "b", "a"]}))
    assert ": 1 document, first (query q, doc a)" in refused(path, "repeated-document")
    assert "'device'" in refused(path, "missing-column", context=("device", "position"))


def test_files_that_are_damaged_or_of_an_unknown_kind_are_refused(tmp_path):
    (tmp_path / "b.run").touch()
    (tmp_path / "e.run").write_bytes(b"q Q0 \xff 1 1 t\n")
    for path, named in (
        (tmp_path / "b.run", "is empty"),
        (write(tmp_path / "d.txt", ["q d 1"]), "no known kind"),
        (tmp_path / "e.run", "UTF-8"),
    ):
        with pytest.raises(InputError, match=named):
            read_ranking(path, "new")
