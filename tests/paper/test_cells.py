"""Settings, methods and shares of cells: what is selected, and what is rejected."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epiclick.paper.cells import SETTINGS, Share, all_cells, prepare_folder, share_of
from epiclick.paper.runs import with_data
from epiclick.paper.settings import GRID, PRESETS, Settings, choose_preset, with_rates
from epiclick.paper.variants import EXPERIMENTS, VARIANTS, choose_methods

from ..raising import raises_code


def test_presets_are_valid_and_the_papers_has_its_sizes() -> None:
    for name, settings in PRESETS.items():
        settings.check()
        assert settings.preset == name
        assert set(settings.rates.values()) <= set(GRID)
        # every variant has a rate
        assert {variant.tuned for variant in VARIANTS.values()} <= set(settings.rates)
    paper = PRESETS["paper"]
    assert (paper.pages, paper.samples, paper.epochs, paper.runs) == (100_000, 60, 1_500, 15)
    assert (paper.batch_size, paper.pointwise_batch_size) == (12_000, 35_000)
    assert paper.theta == tuple(1 / k for k in range(1, 6))
    assert paper.measured[:3] == (1, 10, 20)
    assert paper.measured[-1] == 1_500
    assert PRESETS["quick"].runs >= 3


def stored_in(folder: Path) -> dict[str, Any]:
    """The settings that a folder keeps."""
    return json.loads((folder / SETTINGS).read_text())


def test_invalid_settings_are_rejected_together(tiny: Settings) -> None:
    with raises_code("runs-out-of-range") as error:
        replace(tiny, runs=0, epochs=0, dataset="yahoo").check()
    codes = [problem.code for problem in error.value.problems]
    assert codes == ["runs-out-of-range", "epochs-out-of-range", "unknown-dataset"]
    for words in ("runs=0", "epochs=0", "dataset='yahoo'", "synthetic"):
        assert words in str(error.value)


def test_unknown_presets_and_rates_are_rejected(tiny: Settings, tmp_path: Path) -> None:
    with raises_code("unknown-preset") as error:
        choose_preset("quik")
    assert "did you mean 'quick'" in str(error.value)
    path = tmp_path / "rates.json"
    path.write_text('{"exact": 0.5}')
    assert with_rates(tiny, path).rates == {**tiny.rates, "exact": 0.5}
    path.write_text('{"conditioned@0.01": 0.5}')
    with raises_code("unknown-method") as error:
        with_rates(tiny, path)
    assert "conditioned@0.01" in str(error.value)
    path.write_text("[1]")
    with raises_code("invalid-rates-file"):
        with_rates(tiny, path)


def test_data_and_path_belong_together(tiny: Settings, tmp_path: Path) -> None:
    assert with_data(tiny, None) == tiny
    with raises_code("path-without-dataset"):
        with_data(tiny, tmp_path)
    with raises_code("missing-path") as error:
        with_data(replace(tiny, dataset="mslr"), None)
    assert "--path" in str(error.value)


def test_letor_data_are_identified_by_their_digest(tiny: Settings, tmp_path: Path) -> None:
    def write(label: int) -> None:
        for number, split in enumerate(("train", "vali", "test")):
            lines = [f"{label} qid:{number} 1:{doc} 2:1" for doc in range(4)]
            (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n")

    letor, digests = replace(tiny, dataset="letor"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPICLICK_CACHE", str(tmp_path / "cache"))
        for label in (1, 1, 2):
            write(label)
            found = with_data(letor, tmp_path)
            assert (found.queries, found.docs, found.features) == (None, None, None)
            digests.append(found.data)
        (tmp_path / "vali.txt").unlink()
        with raises_code("missing-split") as error:
            with_data(letor, tmp_path)
        assert "vali" in str(error.value)
    assert digests[0] == digests[1] != digests[2]


def test_methods_are_those_of_the_experiments() -> None:
    assert choose_methods() == tuple(VARIANTS)
    assert choose_methods(only=["figure7"]) == choose_methods(only=["e"])
    assert set(choose_methods(only=["e"])) == {
        "pointwise",
        "conditioned",
        "exact",
        "marginal",
    }
    assert choose_methods(["exact", "pointwise"]) == ("pointwise", "exact")
    assert choose_methods(["exact"], ["b", "d"]) == ("exact",)
    assert {key for keys in EXPERIMENTS.values() for key in keys} == set(VARIANTS)
    with raises_code("unknown-method") as error:
        choose_methods(["exakt"])
    assert "did you mean 'exact'" in str(error.value)
    with raises_code("unknown-experiment") as error:
        choose_methods(only=["figure9"])
    assert "'figure9'" in str(error.value)
    with raises_code("no-methods-selected"):
        choose_methods(["marginal"], ["b"])


def test_variants_are_as_their_keys_say() -> None:
    for weight in (0.0001, 0.001, 0.01, 0.25):
        for key, literal in (("conditioned", False), ("exact", False), ("conditioned/S", True)):
            variant = VARIANTS[f"{key}@{weight:g}"]
            assert (variant.entropy, variant.literal) == (weight, literal)
            assert variant.tuned == key.split("/")[0]
    assert VARIANTS["naive-literal+baseline"].literal
    assert VARIANTS["naive-literal+baseline"].baseline
    assert VARIANTS["naive-literal+baseline"].tuned == "naive+baseline"
    assert VARIANTS["pointwise~start=0.9"].start == 0.9
    assert VARIANTS["pointwise~start=0.5"].same_as == "pointwise"
    assert VARIANTS["exact~nu-frozen"].frozen
    assert len({variant.folder for variant in VARIANTS.values()}) == len(VARIANTS)
    assert len({variant.label for variant in VARIANTS.values()}) == len(VARIANTS)


def test_shares_are_a_partition(tiny: Settings) -> None:
    cells = all_cells(replace(tiny, methods=choose_methods(), runs=5))
    names = len(VARIANTS) - 1  # one variant is an alias
    assert len(cells) == len(set(cells)) == 5 * names
    shares = [share_of(cells, Share(i, 4)) for i in range(1, 5)]
    assert sorted(map(len, shares))[0] >= len(cells) // 4
    assert {cell for share in shares for cell in share} == set(cells)
    assert sum(map(len, shares)) == len(cells)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2"])
def test_invalid_shares_are_rejected(text: str) -> None:
    with raises_code("invalid-share"):
        Share.parse(text)


def test_a_share_is_parsed() -> None:
    assert Share.parse(" 2/3 ") == Share(2, 3)


def test_a_folder_keeps_its_settings(tiny: Settings, tmp_path: Path) -> None:
    prepare_folder(tmp_path, tiny)
    assert stored_in(tmp_path) == tiny.to_dict()
    more = replace(tiny, runs=7, methods=("exact",))
    prepare_folder(tmp_path, more)
    assert stored_in(tmp_path) == more.to_dict()
    with raises_code("settings-differ") as error:
        prepare_folder(tmp_path, replace(tiny, seed=1, samples=9))
    assert "samples is 4 there and 9 here; seed is 0 there and 1 here" in str(error.value)
    assert stored_in(tmp_path) == more.to_dict()
    (tmp_path / SETTINGS).write_text("{")
    with raises_code("damaged-file"):
        prepare_folder(tmp_path, tiny)
