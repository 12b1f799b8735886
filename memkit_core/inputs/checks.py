"""One value at a time: what it must be, and what an error says when it is not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from memkit_core.errors import InvalidInputError, ScopeError, shown
from memkit_core.models import MEMORIES, MESSAGES, Status
from memkit_core.scope import Scope, id_problem, require_scope
from memkit_core.sequences import iterated
from memkit_core.text.clean import storable
from memkit_core.times import TimeLike, to_utc

E = TypeVar("E", bound=StrEnum)

_LONGEST_TIMEOUT = 31_536_000.0


def checked_content(content: object, *, max_chars: int) -> str:
    """Text that can be stored: not blank, not too long, NUL and lone surrogates replaced by U+FFFD."""
    text = checked_text(content, "content", max_chars=max_chars)
    if not text.strip():
        raise InvalidInputError(f"content must not be blank, got {shown(content)}")
    return text


def checked_text(text: object, name: str, *, max_chars: int) -> str:
    """Text that can be stored, blank or not: not too long, NUL and lone surrogates replaced by U+FFFD."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{name} must be a string, got {type(text).__name__} {shown(text)}")
    if len(text) > max_chars:
        raise InvalidInputError(
            f"{name} must have at most {max_chars} characters, got {len(text)}; split it, or raise "
            "Config.max_content_chars"
        )
    return storable(str.__str__(text))


def checked_id(value: object, name: str = "id") -> str:
    """`value` when it can be an id."""
    if problem := id_problem(value):
        raise InvalidInputError(f"{name} {problem}")
    assert isinstance(value, str)
    # Not str(value), which for a member of a str enum is the name of the member.
    return str.__str__(value)


def optional_id(value: object, name: str) -> str | None:
    """`value` when it can be an id; None for None."""
    return None if value is None else checked_id(value, name)


def checked_bool(value: object, name: str) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name} must be True or False, got {shown(value)}")
    return value


def checked_fraction(value: object, name: str) -> float:
    """A number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise InvalidInputError(f"{name} must be a number from 0 to 1, got {shown(value)}")
    return float(value)


def checked_enum(kind: type[E], value: object, name: str) -> E:
    """The member of `kind` that `value` names."""
    try:
        # Text alone: an array of one text equals it, and a list without end cannot be printed.
        return kind(value if isinstance(value, str) else "")
    except ValueError:
        raise InvalidInputError(f"{name} must be one of {', '.join(kind)}, got {shown(value)}") from None


def listed(given: object, name: str) -> list[Any]:
    """What was given as a list, a single text standing for itself."""
    if isinstance(given, str):
        return [given]
    items = iterated(given)
    if items is None:
        raise InvalidInputError(f"{name} must be a list, got {shown(given)}")
    return list(items)


def checked_ids(given: object, name: str) -> list[str]:
    """A list of ids, or anything that gives ids one by one; a single text is refused."""
    if isinstance(given, str):
        raise InvalidInputError(f"{name} must be a list of ids, got the text {shown(given)}")
    return [checked_id(one, name) for one in listed(given, name)]


def checked_space(space: object) -> str:
    """The name of a space: `memories`, `messages`, `documents:<name>` or `store:<name>` (spec A0)."""
    name = checked_id(space, "space")
    kind, _, rest = name.partition(":")
    if name in (MEMORIES, MESSAGES) or (kind in ("documents", "store") and rest):
        return name
    raise InvalidInputError(
        f"space must be {MEMORIES!r}, {MESSAGES!r}, 'documents:<name>' or 'store:<name>', got {shown(space)}"
    )


def checked_tags(tags: object) -> tuple[str, ...]:
    """Tags lower-cased and without repeats, in the order given."""
    given = iterated(tags)
    if given is None:
        raise InvalidInputError(f"tags must be a list of strings, got {shown(tags)}")
    return tuple(dict.fromkeys(checked_id(tag, "tags").lower() for tag in given))


def checked_count(value: object, name: str, *, most: int) -> int:
    """A whole number from 1 to `most`."""
    return _whole(value, name, least=1, most=most)


def checked_budget(value: object, name: str) -> int:
    """A number of tokens, 0 or more."""
    return checked_amount(value, name, most=2**62)


def checked_mapping(value: object, name: str) -> Mapping[Any, Any]:
    """A mapping; empty for None."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping, got {shown(value)}")
    return value or {}


def checked_amount(value: object, name: str, *, most: int) -> int:
    """A whole number from 0 to `most`, where 0 stands for none."""
    return _whole(value, name, least=0, most=most)


def _whole(value: object, name: str, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInputError(f"{name} must be a whole number from {least} to {most}, got {shown(value)}")
    return value


def checked_timeout(value: object, name: str) -> float | None:
    """A number of seconds, 0 or more; None for no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InvalidInputError(
            f"{name} must be seconds, 0 or more, or None for no limit, got {shown(value)}"
        )
    # What no clock of the system can count is as good as no limit.
    return float(min(value, _LONGEST_TIMEOUT))


def checked_version(value: object) -> int:
    """The version that a stored value is expected to have, 0 for "there is none"."""
    return (
        0 if type(value) is int and value == 0 else checked_count(value, "expected_version", most=2**63 - 1)
    )


def optional_time(value: TimeLike | None, name: str) -> datetime | None:
    """The moment in UTC; None for None."""
    return None if value is None else to_utc(value, name=name)


def checked_scopes(given: object, *, verb: str) -> tuple[Scope, ...]:
    """The distinct scopes that one scope, or several, name; the narrow ones first."""
    if isinstance(given, Scope) or not isinstance(given, Sequence):
        return (require_scope(given, verb=verb),)
    if not given:
        raise ScopeError(f"{verb}: at least one scope is required")
    scopes = dict.fromkeys(require_scope(one, verb=verb) for one in given)
    return tuple(sorted(scopes, key=lambda scope: scope.kind.breadth))


def checked_statuses(given: object) -> tuple[Status, ...]:
    """The statuses that one, or several, name; at least one."""
    statuses = tuple(checked_enum(Status, one, "status") for one in listed(given, "status"))
    if not statuses:
        raise InvalidInputError(f"status must name at least one of {', '.join(Status)}")
    return statuses
