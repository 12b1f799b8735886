"""What a point of memkit is in Qdrant, embedded or served, and how a filter asks for it.

A payload holds digests and times, never text: deleted payloads stay in Qdrant's files for a while.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from memkit_core.filters import And, Condition, Filter, Not, Op, Or, holds
from memkit_core.models import RecordType, Status, Target
from memkit_core.ports import IndexPoint

PARTITION = "partition"
"""The payload field that every search names: owner and space in one digest."""

KEYWORD_FIELDS = (PARTITION, "scope", "type", "status", "tags")
"""Payload fields matched by value."""

INTEGER_FIELDS = ("created_at", "occurred_at", "expires_at")
"""Payload fields compared by order. Every search looks at `expires_at`: without an index of its own
the engine would read the payload of each point."""


def payload(point: IndexPoint) -> dict[str, object]:
    """What is stored beside the point's vector."""
    stored: dict[str, object] = {
        PARTITION: _partition(point.owner, point.space),
        "scope": point.scope.hex(),
        "type": point.type,
        "status": point.status,
        "created_at": point.created_at,
        "tags": [_tag_digest(tag) for tag in point.tags],
    }
    if point.occurred_at is not None:
        stored["occurred_at"] = point.occurred_at
    if point.expires_at is not None:
        stored["expires_at"] = point.expires_at
    return stored


@lru_cache(maxsize=1024)
def _partition(owner: bytes, space: str) -> str:
    return hashlib.blake2b(owner + space.encode(), digest_size=16, person=b"memkit.owner").hexdigest()


def _tag_digest(tag: str) -> str:
    return hashlib.blake2b(tag.encode(), digest_size=16, person=b"memkit.tag").hexdigest()


class QdrantFilters:
    """Filters over the indexed fields as Qdrant's, with exactly the grammar's meaning.

    What Qdrant means otherwise is never used: `MatchExcept` leaves out points without the field,
    `MatchValue` takes True for 1 and refuses floats, and an empty `should` matches everything.
    """

    def __init__(
        self, models: Any, *, between: Callable[..., Any], empty: Callable[[str], Any], nothing: Any
    ) -> None:
        """Build from the classes of one Qdrant package.

        Args:
            models: where `Filter`, `FieldCondition`, `MatchValue` and `MatchAny` are.
            between: the class of a numeric range, with `gt`, `gte`, `lt` and `lte`.
            empty: the condition that a field has no value.
            nothing: a condition that no point satisfies.
        """
        self._models = models
        self._between = between
        self._empty = empty
        self._nothing = nothing

    def within(self, target: Target, where: Filter | None) -> Any:
        """The points of `target` that satisfy `where`."""
        partition = _partition(target.owner.digest, target.space)
        parts = [self._any(PARTITION, [partition])]
        if target.narrowed:
            parts.append(self._any("scope", [target.scope.digest.hex()]))
        if where is not None:
            # Side by side, not nested: the engine chooses among the conditions of one level.
            parts += [self._filter(part) for part in (where.parts if isinstance(where, And) else (where,))]
        return self._models.Filter(must=parts)

    def _filter(self, where: Filter) -> Any:
        models = self._models
        match where:
            case And(parts):
                return models.Filter(must=[self._filter(part) for part in parts])
            case Or(parts):
                return (
                    models.Filter(should=[self._filter(part) for part in parts]) if parts else self._nothing
                )
            case Not(part):
                return models.Filter(must_not=[self._filter(part)])
            case Condition():
                return self._condition(where)

    def _condition(self, where: Condition) -> Any:
        assert where.field is not None
        if where.field in ("type", "status"):
            return self._enumerated(where)
        if where.field == "tags":
            return self._tags(where)
        return self._time(where)

    def _enumerated(self, where: Condition) -> Any:
        # Both fields have few values and are never missing: ask the grammar which of them match.
        known: list[str] = [str(value) for value in (RecordType if where.field == "type" else Status)]
        return self._any(str(where.field), [value for value in known if holds(where, value)])

    def _tags(self, where: Condition) -> Any:
        if where.op is Op.EXISTS:
            return self._models.Filter() if where.value else self._nothing
        # A list that is contained as one value is no tag, so it equals none.
        wanted = (
            where.value if isinstance(where.value, list) and where.op is not Op.CONTAINS else [where.value]
        )
        found = self._any("tags", [_tag_digest(tag) for tag in wanted if isinstance(tag, str)])
        return self._models.Filter(must_not=[found]) if where.op is Op.NIN else found

    def _time(self, where: Condition) -> Any:
        models, op, value = self._models, where.op, where.value
        if op is Op.EXISTS:
            empty = self._empty(str(where.field))
            return models.Filter(must_not=[empty]) if value else empty
        if op in (Op.IN, Op.NIN):
            assert isinstance(value, list)
            equal = [self._range(where, gte=v, lte=v) for v in value if v is not None]
            found = models.Filter(should=equal) if equal else self._nothing
            return models.Filter(must_not=[found]) if op is Op.NIN else found
        if op in (Op.EQ, Op.NE):
            found = self._nothing if value is None else self._range(where, gte=value, lte=value)
            return models.Filter(must_not=[found]) if op is Op.NE else found
        return self._range(where, **{op.value: value})

    def _range(self, where: Condition, **bounds: Any) -> Any:
        limits = self._between(**{name: float(bound) for name, bound in bounds.items()})
        return self._models.FieldCondition(key=where.field, range=limits)

    def _any(self, key: str, values: list[str]) -> Any:
        if not values:
            return self._nothing
        models = self._models
        match = models.MatchValue(value=values[0]) if len(values) == 1 else models.MatchAny(any=values)
        return models.FieldCondition(key=key, match=match)
