"""What a person at a Python prompt gets wrong, and what the answer is."""

import logging
from pathlib import Path

import pytest

import epiclick as ec
from epiclick.training import progress

from .raising import raises_code
from .views.test_summaries import model, world


def test_unknown_parameters_are_refused_with_the_known_ones() -> None:
    with pytest.raises(
        TypeError, match=r"no parameter 'epoch' \(did you mean 'epochs'\?\); it has"
    ):
        ec.EpistemicPBM(epoch=3)


def test_parameters_of_the_model_given_to_fit_are_sent_where_they_belong() -> None:
    with pytest.raises(TypeError, match=r"not of fit: EpistemicPBM\(epochs=\.\.\.\)"):
        ec.EpistemicPBM().fit(ec.read_log(world().log), epochs=3)
    with pytest.raises(TypeError, match=r"fit has no argument 'check' \(did you mean 'checkpoint'"):
        ec.EpistemicPBM().fit(ec.read_log(world().log), check="x")


@pytest.mark.parametrize("call", [ec.compare, ec.evaluate, ec.report])
def test_public_functions_name_their_arguments(call) -> None:
    with pytest.raises(TypeError, match=f"{call.__name__} has no argument 'depht'"):
        call(None, None, depht=3)


def test_a_report_is_written_from_python(tmp_path: Path) -> None:
    counts = ec.read_log(world().log, features=world().features)
    ranked = model().rank(world().features)
    rankings = {"best": ranked[ranked["position"] <= 3]}
    rankings["worst"] = rankings["best"].assign(position=4 - rankings["best"]["position"])
    out = tmp_path / "page.html"
    assert ec.report(model(), counts, out, rankings=rankings, title="My shop") == out
    page = out.read_text()
    assert "<h1>My shop</h1>" in page
    assert "worst" in page
    with raises_code("not-a-model"):
        ec.report("model", counts, out)
    with raises_code("not-counts"):
        ec.report(model(), world().log, out)
    with raises_code("not-a-model"):
        ec.evaluate("model", counts)


def test_off_a_terminal_progress_is_a_log_record_now_and_then(caplog, monkeypatch) -> None:
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    with caplog.at_level(logging.INFO, "epiclick"), progress.TrainingBar(9, 1) as bar:
        for number in range(9):
            bar.step()
            bar.epoch(-0.5 - number, -0.25)
    assert 2 <= len(caplog.records) < 9
    assert "of at most 9 epochs, likelihood" in caplog.records[0].getMessage()
    assert "(held out -0.2500)" in caplog.records[0].getMessage()


def test_a_fit_logs_its_caveats_and_select_leaves_them_to_its_verdict(caplog) -> None:
    users = ec.simulate(100, 8, 2, 6_000, positions=5, users="sdbn", seed=3)
    ec.EpistemicPBM().fit(ec.read_log(users.log), progress=False)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("epiclick", logging.WARNING)
    assert "Compare click models with select" in record.getMessage()
    caplog.clear()
    found = ec.select(users.log, models=("pbm", "sdbn"), progress=False)
    assert "contradict assumptions of pbm" in found.verdict
    assert not caplog.records
    ec.EpistemicPBM().fit(ec.read_log(users.log), progress=False)
    assert caplog.records
