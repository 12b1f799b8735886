"""What free metadata may hold is checked when it is written, so that nothing is lost on the way back."""

import dataclasses
import decimal
import enum
import pathlib
import uuid
from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import given

from memkit_core.errors import InvalidInputError
from memkit_core.jsonvalues import canonical_json, checked_metadata
from memkit_core.testing import metadata


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    A = "a"


@dataclasses.dataclass
class Point:
    x: int = 1


class Loud(str):
    __slots__ = ()


@given(metadata())
def test_json_comes_through_equal(value):
    """JSON comes through equal, in a copy that shares no part with what was given."""
    before = canonical_json(value)
    checked = checked_metadata(value)
    assert canonical_json(checked) == before
    assert checked is not value
    for mine, theirs in zip(checked.values(), value.values(), strict=True):
        assert mine is not theirs or not isinstance(mine, list | dict)


def test_plain_forms():
    """None is no metadata, tuples become lists, five levels deep is fine."""
    assert checked_metadata(None) == {}
    assert checked_metadata({"t": (1, (2,))}) == {"t": [1, [2]]}
    deep = {"a": {"b": {"c": {"d": {"e": [1]}}}}}
    assert checked_metadata(deep) == deep
    assert checked_metadata({"n": 2**63 - 1, "m": -(2**63)}) == {"n": 2**63 - 1, "m": -(2**63)}


BAD = [
    {1}, frozenset(), b"x", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None), date(2026, 1, 1), uuid.uuid4(),
    decimal.Decimal(1), Colour.RED, Level.LOW, Name.A, pathlib.Path("x"), float("nan"), float("inf"), -float("inf"),
    2**63, -(2**63) - 1, 2**70, Point(), object(), len, 1j, np.float64(1), np.int64(1), np.ones(2), Loud("x"),
    "\0", "\ud83d", {1: "x"}, {"\0": 1}, {"\ud83d": 1}, {None: 1}, iter([1]), range(3),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=[type(one).__name__ for one in BAD])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [1, v], lambda v: {"inner": (v,)}])
def test_what_is_not_json_is_refused_by_name(bad, wrap):
    """What could come back as something else is refused at once, with the key in the message."""
    with pytest.raises(InvalidInputError, match="odd"):
        checked_metadata({"fine": 1, "odd": wrap(bad)})


@pytest.mark.parametrize("bad", ["x", 7, [1], [("a", 1)], b"x", True], ids=repr)
def test_metadata_is_a_dict(bad):
    """What is no dict is no metadata."""
    with pytest.raises(InvalidInputError):
        checked_metadata(bad)


@pytest.mark.parametrize("bad", [1, None, "\0", "\ud83d", b"k", Name.A], ids=repr)
def test_keys_are_text(bad):
    """A key is text that every store can hold; a number is refused rather than made text."""
    with pytest.raises(InvalidInputError):
        checked_metadata({bad: 1})


def test_nesting_has_a_limit():
    """Nesting up to 32 levels is stored, deeper is refused, and a cycle is no endless loop."""

    def nested(levels):
        return "x" if levels == 0 else [nested(levels - 1)]

    assert checked_metadata({"a": nested(31)})
    with pytest.raises(InvalidInputError, match="nested"):
        checked_metadata({"a": nested(32)})
    cycle = []
    cycle.append(cycle)
    with pytest.raises(InvalidInputError, match="nested"):
        checked_metadata({"a": cycle})


def test_one_text_per_value():
    """The canonical text ignores key order and keeps types: 1, 1.0, true and "1" differ."""
    assert canonical_json({"b": 1, "a": [2]}) == canonical_json({"a": [2], "b": 1}) == '{"a":[2],"b":1}'
    assert len({canonical_json(value) for value in (1, 1.0, True, "1", None, "null")}) == 6
    assert canonical_json("é丹") == '"é丹"'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(float("nan"))
