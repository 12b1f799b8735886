"""What is promised of values that JSON does not know."""

import dataclasses
import enum
import io
import math
import pathlib
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
)
from pydantic import BaseModel

from llamaindex_memkit.convert import plain


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    where: Color


class Model(BaseModel):
    when: date


class Broken:
    def __repr__(self):
        raise RuntimeError("no repr")


PLAIN = {
    "deep": ({"a": {"b": {"c": {"d": [1, None]}}}}, {"a": {"b": {"c": {"d": [1, None]}}}}),
    "tuple": ((1, "x"), [1, "x"]),
    "set": ({"b", "a"}, ["a", "b"]),
    "aware": (datetime(2026, 5, 1, tzinfo=UTC), "2026-05-01T00:00:00Z"),
    "naive": (datetime(2026, 5, 1), "2026-05-01T00:00:00"),  # noqa: DTZ001 - naive on purpose
    "date": (date(2026, 5, 1), "2026-05-01"),
    "uuid": (UUID(int=7), str(UUID(int=7))),
    "decimal": (Decimal("1.50"), "1.50"),
    "enum": (Color.RED, "red"),
    "text bytes": (b"abc", "abc"),
    "bytes": (b"\xff\x00", "/wA="),
    "NUL bytes": (b"a\0b", "YQBi"),
    "path": (pathlib.Path("/a/b"), "/a/b"),
    "nan": (math.nan, "nan"),
    "inf": (-math.inf, "-inf"),
    "big": (2**70, 2**70),
    "dataclass": (Point(1, Color.RED), {"x": 1, "where": "red"}),
    "model": (Model(when=date(2026, 5, 1)), {"when": "2026-05-01"}),
    "keys": ({1: "a", Color.RED: "b"}, {"1": "a", "red": "b"}),
}


@pytest.mark.parametrize(("value", "form"), PLAIN.values(), ids=PLAIN)
def test_plain_forms(chat, value, form):
    """A value that JSON does not know comes back in its documented form, never as None (B24)."""
    adapter = chat()
    adapter.put(ChatMessage(role="user", content="hello", additional_kwargs={"value": value}))
    assert adapter.get_all()[0].additional_kwargs == {"value": form}


def test_objects_do_not_lose_the_turn(chat):
    """An object that cannot be stored is replaced by a short text; the turn is kept (B24)."""
    cycle: dict[str, object] = {}
    cycle["me"] = cycle
    given = {"object": object(), "broken": Broken(), "cycle": cycle, "file": io.BytesIO(b"x")}
    adapter = chat()
    adapter.put(ChatMessage(role="assistant", content="kept", additional_kwargs=given))
    [stored] = adapter.get_all()
    assert stored.content == "kept"
    assert stored.additional_kwargs["object"].startswith("<object object")
    assert "repr failed" in stored.additional_kwargs["broken"]
    assert given["cycle"] is cycle


def test_iterators_are_not_consumed():
    """Storing does not read a caller's generator to its end."""
    numbers = iter([1, 2])
    plain({"numbers": numbers})
    assert list(numbers) == [1, 2]
