"""Checks of the options of `embedder={"provider": ..., "model": ..., ...}`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from memkit_core.errors import ConfigError, shown


def checked_text(name: str, value: object) -> str:
    """`value`, which must be a string, "" included.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(value, str):
        raise ConfigError(f"embedder option {name!r} must be a string, got {shown(value)}")
    return value


def checked_flag(name: str, value: object) -> bool:
    """`value`, which must be True or False.

    Raises:
        ConfigError: it is neither.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"embedder option {name!r} must be True or False, got {shown(value)}")
    return value


def checked_number(name: str, value: object, *, least: float) -> float:
    """`value`, which must be a finite number of at least `least`.

    Raises:
        ConfigError: it is none, or less.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"embedder option {name!r} must be a number, got {shown(value)}")
    if value < least:
        raise ConfigError(f"embedder option {name!r} must be at least {least:g}, got {value!r}")
    return value


def checked_count(name: str, value: object, *, least: int) -> int:
    """`value`, which must be a whole number of at least `least`.

    Raises:
        ConfigError: it is none, or less.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"embedder option {name!r} must be a whole number, got {shown(value)}")
    return int(checked_number(name, value, least=least))


def checked_object(name: str, value: object) -> dict[str, object]:
    """A copy of `value`, which must be a dict that JSON can hold.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"embedder option {name!r} must be a dict with string keys, got {shown(value)}")
    try:
        copied: dict[str, object] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"embedder option {name!r} must hold JSON values only: {error}") from error
    return copied


def revision_of(**parts: object) -> str:
    """What changes a model's vectors, as one line: `name=JSON` for each part that is not empty."""
    return "; ".join(
        f"{name}={json.dumps(value, ensure_ascii=False, sort_keys=True)}"
        for name, value in parts.items()
        if value not in ("", None, {})
    )
