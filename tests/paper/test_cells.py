"""Settings, methods and shares of cells: what is asked for, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from epiclick.errors import InputError
from epiclick.paper.cells import Share, all_cells, claim_folder, load_settings, share_of
from epiclick.paper.runs import with_data
from epiclick.paper.settings import GRID, PRESETS, Settings, choose_preset, with_rates
from epiclick.paper.variants import EXPERIMENTS, VARIANTS, choose_methods


def test_presets_are_sound_and_the_papers_is_as_it_says() -> None:
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


def test_settings_come_back_from_json(tiny: Settings) -> None:
    stored = json.loads(json.dumps(tiny.to_dict()))
    assert Settings.from_dict(stored) == tiny


def test_settings_without_sense_are_refused_together(tiny: Settings) -> None:
    with pytest.raises(InputError) as refused:
        replace(tiny, runs=0, epochs=0, dataset="yahoo").check()
    for words in ("runs must be", "epochs must be", "dataset must be one of synthetic"):
        assert words in str(refused.value)


def test_unknown_presets_and_rates_are_refused(tiny: Settings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'quick'"):
        choose_preset("quik")
    path = tmp_path / "rates.json"
    path.write_text('{"exact": 0.5}')
    assert with_rates(tiny, path).rates == {**tiny.rates, "exact": 0.5}
    path.write_text('{"conditioned@0.01": 0.5}')
    with pytest.raises(InputError, match=r"rates of conditioned@0\.01"):
        with_rates(tiny, path)
    path.write_text("[1]")
    with pytest.raises(InputError, match="cannot be read as rates"):
        with_rates(tiny, path)


def test_data_and_path_belong_together(tiny: Settings, tmp_path: Path) -> None:
    assert with_data(tiny, None) == tiny
    with pytest.raises(InputError, match="synthetic data have no path"):
        with_data(tiny, tmp_path)
    with pytest.raises(InputError, match="Give their folder with --path"):
        with_data(replace(tiny, dataset="mslr"), None)


def test_letor_data_are_known_by_their_digest(tiny: Settings, tmp_path: Path) -> None:
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
        with pytest.raises(InputError, match="has no split vali"):
            with_data(letor, tmp_path)
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
    with pytest.raises(InputError, match="did you mean 'exact'"):
        choose_methods(["exakt"])
    with pytest.raises(InputError, match="no experiment 'figure9'"):
        choose_methods(only=["figure9"])
    with pytest.raises(InputError, match="no method of these experiments"):
        choose_methods(["marginal"], ["b"])


def test_variants_say_what_their_keys_say() -> None:
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
    names = len(VARIANTS) - 1  # one variant is another name
    assert len(cells) == len(set(cells)) == 5 * names
    shares = [share_of(cells, Share(i, 4)) for i in range(1, 5)]
    assert sorted(map(len, shares))[0] >= len(cells) // 4
    assert {cell for share in shares for cell in share} == set(cells)
    assert sum(map(len, shares)) == len(cells)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2"])
def test_shares_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="i/n with i from 1 to n"):
        Share.parse(text)


def test_a_share_is_read() -> None:
    assert Share.parse(" 2/3 ") == Share(2, 3)


def test_a_folder_keeps_its_settings(tiny: Settings, tmp_path: Path) -> None:
    claim_folder(tmp_path, tiny)
    assert load_settings(tmp_path) == tiny
    more = replace(tiny, runs=7, methods=("exact",))
    claim_folder(tmp_path, more)
    assert load_settings(tmp_path) == more
    with pytest.raises(
        InputError, match="samples is 4 there and 9 here; seed is 0 there and 1 here"
    ):
        claim_folder(tmp_path, replace(tiny, seed=1, samples=9))
    assert load_settings(tmp_path) == more
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        claim_folder(tmp_path, tiny)
