"""Text and data of a page, whatever ids contain."""

import json
from html.parser import HTMLParser

import pytest

from epiclick.report.markup import data, escape

CONTROL = [chr(code) for code in (0, 8, 0x1B, 0x7F, 0x9B)]


@pytest.mark.parametrize("sign", CONTROL)
def test_control_characters_are_written_as_escapes(sign: str) -> None:
    assert escape(f"<b>{sign}x") == f"&lt;b&gt;{repr(sign)[1:-1]}x"


def test_line_breaks_and_joiners_stay() -> None:
    # a joiner of no width is part of Persian words and of some emojis
    assert escape("a\nb\u200cc") == "a\nb\u200cc"


@pytest.mark.parametrize("sign", [*CONTROL, "</script>", "<!--", "\u2028"])
def test_data_are_read_back_and_close_no_element(sign: str) -> None:
    block = data("key", {"id": sign})
    seen = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            seen.append(data)

    Reader().feed(block)
    assert [json.loads(each) for each in seen] == [{"id": sign}]
    assert not any(each in block for each in CONTROL)
