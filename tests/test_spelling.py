"""Messages name options as their reader writes them."""

import warnings

import pandas as pd
import pytest

import epiclick as ec
from epiclick.errors import InputError, InputWarning
from epiclick.spelling import as_flags, spelled

from .raising import raises_code

pytestmark = pytest.mark.filterwarnings("ignore:.*single page:epiclick.errors.InputWarning")


def shop_log(**changed: object) -> pd.DataFrame:
    log = {"query_id": [1, 1], "doc_id": [1, 2], "position": [1, 2], "click": [0, 1]}
    return pd.DataFrame({**log, **changed})


@pytest.mark.parametrize(
    ("written", "python"),
    [
        ("use --anchor x,1 (in Python: anchor=('x', 1))", "use anchor=('x', 1)"),
        ("add --context device,row.", 'add context=["device", "row"].'),
        ("Compare them with epiclick select (in Python: select)", "Compare them with select"),
        ("cut all to one depth (--depth)", "cut all to one depth (`depth`)"),
        ("columns for each (on the command line: --features)", "columns for each"),
        ("Fit `epiclick fit --estimator exact`.", "Fit `epiclick fit --estimator exact`."),
        ("up to --max-bad 0.01, or --ids string", 'up to max_bad=0.01, or ids="string"'),
        ("choose another place with --out", "choose another place with --out"),
        ("leave --resume out to start anew", "leave resume=True out to start anew"),
    ],
)
def test_flags_become_keywords(written: str, python: str) -> None:
    assert spelled(written) == python
    with as_flags():
        assert "Python" not in spelled(written)
        assert spelled("use --position-base 0") == "use --position-base 0"
    assert spelled(written) == python


def test_errors_name_the_keyword_that_mends_them() -> None:
    with raises_code("position-below-base") as caught:
        ec.read_log(shop_log(position=[0, 1]))
    assert "use position_base=0." in str(caught.value)
    assert 'use on_bad="drop"' in str(caught.value)
    assert "--" not in str(caught.value)
    with as_flags():
        assert "use --position-base 0." in str(caught.value)
    assert ec.read_log(shop_log(position=[0, 1]), position_base=0).total_displays == 2


def test_a_column_that_is_named_as_the_message_says_is_found() -> None:
    log = shop_log().rename(columns={"position": "place"})
    with raises_code("missing-column") as caught:
        ec.read_log(log)
    assert 'columns={"position": "NAME"}' in str(caught.value)
    assert len(ec.read_log(log, columns={"position": "place"})) == 2


def test_warnings_are_spelled_likewise() -> None:
    with pytest.warns(InputWarning) as caught:
        warnings.warn("use --where SQL", InputWarning, stacklevel=1)
    assert str(caught[0].message) == "use where=SQL"


def test_messages_composed_of_errors_are_spelled_once() -> None:
    error = InputError("name it with --column page_id=NAME", code="missing-column")
    again = error.with_message(f"clicks.csv: {error}")
    assert str(again) == 'clicks.csv: name it with columns={"page_id": "NAME"}'
