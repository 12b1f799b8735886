"""What the fields of a line may hold: checked as strictly as where a user gives them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, AwareDatetime, Field

from memkit_core.errors import MemkitError
from memkit_core.inputs import checked_id, checked_space
from memkit_core.jsonvalues import checked_metadata
from memkit_core.scope import Scope
from memkit_core.text.clean import storable
from memkit_core.times import to_utc

FLOATS = np.dtype("<f4")
"""How vectors are written."""


def _checked(check: Callable[[Any], Any]) -> AfterValidator:
    """`check` with memkit's errors told as pydantic wants to hear them."""

    def run(value: Any) -> Any:
        try:
            return check(value)
        except MemkitError as error:
            raise ValueError(str(error)) from error

    return AfterValidator(run)


def _stored_text(text: str) -> str:
    if storable(text) is not text:
        raise ValueError("the text holds NUL or a lone surrogate")
    return text


def _scope(path: list[tuple[str, str]]) -> Scope:
    try:
        return _scope_of(tuple(path))
    except ValueError as error:  # of a kind that is none, as well as a ScopeError
        raise ValueError(f"no scope: {error}") from error


@lru_cache(maxsize=1024)
def _scope_of(path: tuple[tuple[str, str], ...]) -> Scope:
    return Scope.from_path(path)


def _finite(value: Any) -> Any:
    json.dumps(value, allow_nan=False)
    return value


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"no base64: {error}") from error


Text = Annotated[str, AfterValidator(_stored_text)]
Id = Annotated[str, _checked(checked_id)]
Space = Annotated[str, _checked(checked_space)]
Time = Annotated[AwareDatetime, _checked(to_utc)]
ScopePath = Annotated[list[tuple[str, str]], Field(min_length=1, max_length=8), AfterValidator(_scope)]
Metadata = Annotated[dict[str, Any], _checked(checked_metadata)]
Json = Annotated[Any, AfterValidator(_finite)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Version = Annotated[int, Field(ge=1, lt=2**63)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


Packed = Annotated[str, AfterValidator(_decoded)]
Before = Annotated[dict[str, Any], AfterValidator(_finite)]
