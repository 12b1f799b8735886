"""Where a chunk begins and ends, to a character."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex


def lead(text: str, earliest: int, at: int, *, by_line: bool) -> int:
    """The first place from `earliest` on where a word, or with `by_line` a line, begins; `at` without one."""
    if by_line:
        if earliest == 0:
            return 0
        newline = text.find("\n", earliest - 1, at)
        return at if newline < 0 else newline + 1
    found = _word_boundary().search(text, earliest, at)
    return at if found is None else int(found.start())


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """`text[start:end]` without blank lines and white space around it; a first line keeps its indentation."""
    piece = text[start:end]
    end = start + len(piece.rstrip())
    first = start + len(piece) - len(piece.lstrip())
    line = max(start, text.rfind("\n", 0, first) + 1)
    indented = (line == 0 or text[line - 1] == "\n") and text[line:first].isspace()
    return (line if indented else first), end


def line_of(text: str, earliest: int, at: int) -> int:
    """Where the line of `at` begins, if only its indentation stands between, after `earliest`; else `at`."""
    line = text.rfind("\n", earliest, at) + 1
    return line if line > earliest and text[line:at].isspace() else at


@cache
def _word_boundary() -> regex.Pattern[str]:
    import regex

    # Unicode's word boundaries (UAX #29), which know ideographs, emoji and combining marks.
    return regex.compile(r"\b(?=\S)", regex.WORD | regex.V1)
