"""What notebooks show of memkit's values: small HTML tables, readable by screen readers, without scripts.

Everything that comes from a memory is data: it is escaped, cut to a length and kept from changing
the direction of what stands around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from html import escape

_LONGEST = 500
# The last two ranges close or override the isolation that a cell is set in.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_PLACE = ' style="text-align: left; vertical-align: top; white-space: pre-wrap"'


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a caption and a heading for each column; the first cell of a row is its heading."""
    head = "".join(f'<th scope="col"{_PLACE}>{shown_text(column)}</th>' for column in columns)
    body = "".join(_row(row) for row in rows)
    return f"<table>{_caption(caption)}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def fields(caption: str, values: Mapping[str, object]) -> str:
    """A table of names and values."""
    body = "".join(_row(one) for one in values.items())
    return f"<table>{_caption(caption)}<tbody>{body}</tbody></table>"


def block(caption: str, text: str) -> str:
    """A whole text under a caption, with its line breaks."""
    return (
        f"<figure><figcaption>{shown_text(caption)}</figcaption><pre>{_isolated(_safe(text))}</pre></figure>"
    )


def shown_text(value: object) -> str:
    """The value as escaped HTML: numbers short, times to the second, long text cut."""
    if value is None:
        return "&ndash;"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    text = _text(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text):,} characters)"
    return _isolated(_safe(text))


def _text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False)
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return str(value)


def _safe(text: str) -> str:
    return escape(_CONTROLS.sub("\ufffd", text))


def _isolated(escaped: str) -> str:
    return f"<bdi>{escaped}</bdi>"


def _caption(text: str) -> str:
    return f'<caption style="text-align: left">{shown_text(text)}</caption>'


def _row(cells: Sequence[object]) -> str:
    first, *others = cells
    rest = "".join(f"<td{_PLACE}>{shown_text(cell)}</td>" for cell in others)
    return f'<tr><th scope="row"{_PLACE}>{shown_text(first)}</th>{rest}</tr>'
