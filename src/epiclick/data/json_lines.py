"""Lines of JSON that no parser may be given: nested so deeply that its stack overflows."""

import re

import numpy as np

MAX_DEPTH = 1_000
LONGEST = 32 << 20  # bytes; DuckDB takes no longer line
TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class LongLines:
    """Looks at lines that are long enough to be nested deeply, while a file's blocks pass by.

    All others are passed over by looking for their end from afar, which takes next to no time.
    """

    def __init__(self) -> None:
        """Before the first block."""
        self._rest = b""

    def problem(self, block: bytes) -> str:
        """What is wrong with a line that ends in the block, or at the file's end (b"")."""
        data = self._rest + (block or b"\n")
        start, near = 0, 2 * MAX_DEPTH
        while len(data) - start > near:
            end = data.rfind(b"\n", start, start + near)
            if end < 0:
                end = data.find(b"\n", start + near)
                if end < 0:
                    break
                if _depth(data[start:end]) > MAX_DEPTH:
                    return f"a line is nested more than {MAX_DEPTH:,} levels deep"
            start = end + 1
        self._rest = data[start:]
        if len(self._rest) > LONGEST:
            return f"a line is longer than {LONGEST >> 20} MB"
        return ""


def _depth(line: bytes) -> int:
    """How deeply a line's brackets are nested, those within texts aside."""
    letters = np.frombuffer(TEXT.sub(b"", line), np.uint8)
    opened = np.isin(letters, list(b"{[")).astype(np.int64)
    closed = np.isin(letters, list(b"}]")).astype(np.int64)
    return int(np.max(np.cumsum(opened - closed), initial=0))
