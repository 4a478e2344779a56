"""TREC run files: read as written, their oddities told, their bad lines counted."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from epiclick.comparison.rankings import Ranking, read_ranking
from epiclick.errors import InputError

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


def refused(source, **options) -> str:
    with pytest.raises(InputError) as error:
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


def test_any_whitespace_parts_columns_and_lines_may_be_blank(tmp_path):
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


def test_the_rank_is_taken_where_the_score_says_another_order(tmp_path):
    given = {"q1": ["a", "b"], "q2": ["c"], "q3": ["d", "e", "f"]}
    ranking = read_ranking(write(tmp_path / "a.run", lines(given, sign=1)), "new")
    assert as_lists(ranking) == given
    (note,) = ranking.notes
    assert note == (
        "in 2 of 3 queries the order by score is another one than by rank; the rank was taken"
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
    assert ranking.notes == ("ranks begin at 0 in all queries, so 1 was added to each",)
    mixed = lines({"q1": ["b", "a"]}, first=0) + lines({"q2": ["d", "c"]})
    ranking = read_ranking(write(tmp_path / "b.run", mixed), "new")
    assert as_lists(ranking) == {"q1": ["b", "a"], "q2": ["d", "c"]}
    assert "ordered by score" in ranking.notes[0]


def test_ranks_that_number_nothing_give_way_to_scores(tmp_path):
    rows = ["q Q0 a 1 0.5 t", "q Q0 b 1 2e1 t", "q Q0 c 1 0.5 t"]
    ranking = read_ranking(write(tmp_path / "a.run", rows), "new")
    assert as_lists(ranking) == {"q": ["b", "a", "c"]}
    assert "as trec_eval does" in ranking.notes[0]
    assert ranking.notes[1].startswith("2 of 3 slots")


def test_ids_of_a_run_settle_as_those_of_text_logs(tmp_path):
    path = write(tmp_path / "a.run", lines({"7": ["1", "2"], "12": ["3"]}))
    ranking = read_ranking(path, "new")
    assert (ranking.query_id.type, ranking.doc_id.type) == (pa.int64(), pa.int64())
    assert ranking.list_query.to_pylist() == [7, 12]
    ranking = read_ranking(path, "new", ids="string")
    assert ranking.list_query.to_pylist() == ["12", "7"]
    assert "doc_id must be an integer: 1 value" in refused(
        write(tmp_path / "b.run", lines({"7": ["1", "x"]})), ids="integer"
    )


def test_bad_lines_are_counted_and_the_first_is_named(tmp_path):
    rows = lines({"q": list("abcdefgh")})
    rows[1] = "q Q0 b 2 0.5"
    rows[2] = "q Q0 c 3 0.5 my tag"
    rows[3] = "q Q0 d fourth 0.5 tag"
    rows[5] = "q Q0 f 6 nan tag"
    rows[6] = "q Q0 g 7 1e999 tag"
    rows.insert(0, "")
    said = refused(write(tmp_path / "a.run", rows))
    assert "lines without the six columns of a TREC run: 2 lines, first line 3: 5 columns." in said
    assert "rank must be a whole number: 1 line, first line 5: rank 'fourth'" in said
    assert "score must be a finite number: 2 lines, first line 7: score 'nan'" in said
    # the lines that are left have gaps, which are not what is wrong
    assert said.count("\n  - ") == 3


def test_what_cannot_be_a_run(tmp_path):
    assert "no file at" in refused(tmp_path / "a.run")
    (tmp_path / "b.run").touch()
    assert "is empty" in refused(tmp_path / "b.run")
    assert "the ranking is empty" in refused(write(tmp_path / "c.run", ["", ""]))
    assert "no known kind" in refused(write(tmp_path / "d.txt", ["q d 1"]))
    (tmp_path / "e.run").write_bytes(b"q Q0 \xff 1 1 t\n")
    assert "not written in UTF-8" in refused(tmp_path / "e.run")
    path = write(tmp_path / "f.run", lines({"q": ["a", "b", "a"]}))
    assert "a document twice in one list: 1 document, first (query q, doc a)" in refused(path)
    said = refused(path, context=("device", "position"))
    assert "context column 'device' is not in the ranking" in said
