"""The plain JSON form of whatever a message or an artifact holds."""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
import uuid
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath

import numpy as np
from pydantic import BaseModel

from memkit_core.errors import shown
from memkit_core.jsonvalues import JsonValue

_MAX_DEPTH = 100


def plain(value: object) -> JsonValue:
    """A deep copy of `value` as JSON. Never raises, and never turns a value into None.

    JSON stays equal: None, bool, int, finite float, str, list, and dict with text keys. The rest
    has one documented form:

    - tuple, set, frozenset: a list (a set in the order of its items' repr)
    - Enum: its value; a key that is no text: its text
    - datetime, date, time: ISO 8601; timedelta, UUID, Decimal, path: `str(value)`
    - bytes: Base64; a float that is not finite: `"nan"`, `"inf"` or `"-inf"`
    - pydantic model and dataclass: a dict of its fields; NumPy array and scalar: list and number
    - any other object, one that contains itself, and what is nested deeper than 100: its repr, cut

    A codec of our own, because pydantic's JSON mode turns NaN into None, uses up generators, and
    raises on bytes that are no UTF-8 and on objects that contain themselves.
    """
    return _plain(value, ())


def _plain(value: object, within: tuple[int, ...]) -> JsonValue:
    if isinstance(value, enum.Enum):
        return _plain(value.value, within)
    if value is None or isinstance(value, bool | int | float | str):
        return _scalar(value)
    if (text := _text_form(value)) is not None:
        return text
    if id(value) in within or len(within) >= _MAX_DEPTH:
        return shown(value)
    return _container(value, (*within, id(value)))


def _scalar(value: bool | float | str | None) -> JsonValue:  # noqa: FBT001 - one JSON scalar of five
    if isinstance(value, float):
        number = float(value)
        return number if math.isfinite(number) else repr(number)
    if value is None or isinstance(value, bool):
        return value
    # The base types' own methods: a subclass may print itself as something else.
    return str.__str__(value) if isinstance(value, str) else int.__int__(value)


def _text_form(value: object) -> str | None:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta | uuid.UUID | Decimal | PurePath):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    return None


def _container(value: object, within: tuple[int, ...]) -> JsonValue:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist(), within)
    if isinstance(value, BaseModel):
        value = dict(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, within) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, within) for item in value]
    if isinstance(value, set | frozenset):
        return [_plain(item, within) for item in sorted(value, key=shown)]
    return shown(value)


def _key(key: object) -> str:
    form = _plain(key, ())
    return form if isinstance(form, str) else shown(form)
