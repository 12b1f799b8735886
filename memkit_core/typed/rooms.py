"""`memory.profiles`, `memory.episodes` and `memory.skills`: adding, getting and searching values."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from memkit_core.errors import InvalidInputError, shown
from memkit_core.filters import And, Condition, FilterLike, Op, parse_filter
from memkit_core.inputs import NewMemory, checked_id
from memkit_core.jsonvalues import canonical_json, checked_metadata
from memkit_core.models import MemoryRecord, RecallResult, RecordPage, RecordType
from memkit_core.scope import Scope
from memkit_core.times import TimeLike
from memkit_core.typed.values import (
    Episode,
    Profile,
    Shape,
    Skill,
    read_episode,
    read_profile,
    read_skill,
    shape_of_episode,
    shape_of_profile,
    shape_of_skill,
)

V = TypeVar("V")


class MemoryVerbs(Protocol):
    """What is needed of a `Memory`."""

    def add_many(self, items: Iterable[NewMemory | str], *, scope: Scope) -> list[MemoryRecord]:
        """See `Memory.add_many`."""

    def get(self, id: str, *, scope: Scope) -> MemoryRecord | None:  # noqa: A002 - as in `Memory`
        """See `Memory.get`."""

    def list_records(
        self,
        *,
        scope: Scope,
        types: Iterable[RecordType | str],
        filters: FilterLike | None,
        limit: int,
        as_of: TimeLike | None,
    ) -> RecordPage:
        """See `Memory.list_records`."""

    def recall(
        self,
        query: str,
        *,
        scope: Scope | Sequence[Scope],
        top_k: int,
        filters: FilterLike | None,
        types: Iterable[RecordType | str],
        as_of: TimeLike | None,
    ) -> RecallResult:
        """See `Memory.recall`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed(Generic[V]):
    """A value with the record it is kept in; `score` as of a recall, None when it was not searched."""

    value: V
    record: MemoryRecord
    score: float | None = None


class _Room(Generic[V]):
    """What the three have in common; a room is made anew on each use and holds nothing."""

    _kind: RecordType
    _name: str

    def __init__(
        self, memory: MemoryVerbs, shape: Callable[[V], Shape], read: Callable[[MemoryRecord], V | None]
    ) -> None:
        self._memory = memory
        self._shape = shape
        self._read = read

    def _added(self, shape: Shape, scope: Scope, new: NewMemory, *, chosen_id: str | None = None) -> Typed[V]:
        metadata = checked_metadata(new.metadata)
        if shape.name in metadata:
            raise InvalidInputError(
                f"metadata must not have the key {shape.name!r}: the value of the {shape.name} stands there"
            )
        filled = NewMemory(
            content=shape.content, id=chosen_id, type=shape.kind, key=shape.key,
            metadata=metadata | {shape.name: shape.fields}, occurred_at=shape.occurred_at,
            tags=new.tags, importance=new.importance, pinned=new.pinned, expires_at=new.expires_at,
            valid_from=new.valid_from, source=new.source, confidence=new.confidence,
            source_message_ids=new.source_message_ids,
        )  # fmt: skip
        (record,) = self._memory.add_many([filled], scope=scope)
        return self._typed(record)

    def _typed(self, record: MemoryRecord, score: float | None = None) -> Typed[V]:
        value = self._read(record)
        assert value is not None
        return Typed(value=value, record=record, score=score)

    def _got(self, record: MemoryRecord | None) -> Typed[V] | None:
        if record is None or record.type is not self._kind or self._read(record) is None:
            return None
        return self._typed(record)

    def _found(
        self,
        query: str,
        scope: Scope | Sequence[Scope],
        top_k: int,
        filters: FilterLike | None,
        as_of: TimeLike | None,
    ) -> list[Typed[V]]:
        shaped = Condition(("metadata", self._name), Op.EXISTS, value=True)
        where = parse_filter(filters)
        hits = self._memory.recall(
            query, scope=scope, top_k=top_k, types=[self._kind], as_of=as_of,
            filters=shaped if where is None else And((shaped, where)),
        )  # fmt: skip
        return [self._typed(hit.record, hit.score) for hit in hits if self._read(hit.record) is not None]


class Profiles(_Room[Profile]):
    """Documents about their owner, one a scope and key, in versions. Reached as `memory.profiles`."""

    _kind, _name = RecordType.PROFILE, "profile"

    def __init__(self, memory: MemoryVerbs) -> None:
        """The profiles of `memory`."""
        super().__init__(memory, shape_of_profile, read_profile)

    def add(
        self,
        profile: Profile,
        *,
        scope: Scope,
        tags: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
        importance: float | None = None,
        expires_at: TimeLike | None = None,
        valid_from: TimeLike | None = None,
        source: str | None = None,
        confidence: float | None = None,
    ) -> Typed[Profile]:
        """Make `profile` the document of its key; the version before is superseded, see `Memory.add`.

        The very document that holds already is returned as it is.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: what cannot be stored; nothing is written.
        """
        shape = self._shape(_checked(profile, Profile))
        held = self.get(profile.key, scope=scope)
        if held is not None and canonical_json(self._shape(held.value).fields) == canonical_json(
            shape.fields
        ):
            return held
        new = NewMemory(
            content="", tags=tags, metadata=metadata, importance=importance, expires_at=expires_at,
            valid_from=valid_from, source=source, confidence=confidence,
        )  # fmt: skip
        # With an id, because two documents can differ in what duplicates may differ in: "Rose" and "rose".
        return self._added(shape, scope, new, chosen_id=str(uuid.uuid4()))

    def get(self, key: str, *, scope: Scope, as_of: TimeLike | None = None) -> Typed[Profile] | None:
        """The document of a key, as it is now or held at a moment; None when there is none."""
        page = self._memory.list_records(
            scope=scope,
            types=[self._kind],
            filters={"key": checked_id(key, "key")},
            limit=1,
            as_of=as_of,
        )
        return self._got(page.records[0]) if page.records else None

    def search(
        self,
        query: str,
        *,
        scope: Scope | Sequence[Scope],
        top_k: int = 10,
        filters: FilterLike | None = None,
        as_of: TimeLike | None = None,
    ) -> list[Typed[Profile]]:
        """The profiles that answer `query`, best first; filters reach in as `metadata.profile.x`."""
        return self._found(query, scope, top_k, filters, as_of)


class Episodes(_Room[Episode]):
    """What happened. Reached as `memory.episodes`."""

    _kind, _name = RecordType.EVENT, "episode"

    def __init__(self, memory: MemoryVerbs) -> None:
        """The episodes of `memory`."""
        super().__init__(memory, shape_of_episode, read_episode)

    def add(
        self,
        episode: Episode,
        *,
        scope: Scope,
        tags: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
        importance: float | None = None,
        expires_at: TimeLike | None = None,
        source: str | None = None,
        confidence: float | None = None,
        source_message_ids: Sequence[str] = (),
    ) -> Typed[Episode]:
        """Remember an episode; told again in the same words it is one with the first, see `Memory.add`.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: what cannot be stored; nothing is written.
        """
        new = NewMemory(
            content="", tags=tags, metadata=metadata, importance=importance, expires_at=expires_at,
            source=source, confidence=confidence, source_message_ids=source_message_ids,
        )  # fmt: skip
        return self._added(self._shape(_checked(episode, Episode)), scope, new)

    def get(self, id: str, *, scope: Scope) -> Typed[Episode] | None:  # noqa: A002 - the word every reader expects
        """The episode with this id; None when there is none, as in `Memory.get`."""
        return self._got(self._memory.get(id, scope=scope))

    def search(
        self,
        query: str,
        *,
        scope: Scope | Sequence[Scope],
        top_k: int = 10,
        filters: FilterLike | None = None,
        as_of: TimeLike | None = None,
    ) -> list[Typed[Episode]]:
        """The episodes that answer `query`, best first; filters reach in as `metadata.episode.x`."""
        return self._found(query, scope, top_k, filters, as_of)


class Skills(_Room[Skill]):
    """How things are done. Reached as `memory.skills`."""

    _kind, _name = RecordType.SKILL, "skill"

    def __init__(self, memory: MemoryVerbs) -> None:
        """The skills of `memory`."""
        super().__init__(memory, shape_of_skill, read_skill)

    def add(
        self,
        skill: Skill,
        *,
        scope: Scope,
        tags: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
        importance: float | None = None,
        expires_at: TimeLike | None = None,
        source: str | None = None,
        confidence: float | None = None,
        source_message_ids: Sequence[str] = (),
    ) -> Typed[Skill]:
        """Remember a skill; told again in the same words it is one with the first, see `Memory.add`.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            InvalidInputError: what cannot be stored; nothing is written.
        """
        new = NewMemory(
            content="", tags=tags, metadata=metadata, importance=importance, expires_at=expires_at,
            source=source, confidence=confidence, source_message_ids=source_message_ids,
        )  # fmt: skip
        return self._added(self._shape(_checked(skill, Skill)), scope, new)

    def get(self, id: str, *, scope: Scope) -> Typed[Skill] | None:  # noqa: A002 - the word every reader expects
        """The skill with this id; None when there is none, as in `Memory.get`."""
        return self._got(self._memory.get(id, scope=scope))

    def search(
        self,
        query: str,
        *,
        scope: Scope | Sequence[Scope],
        top_k: int = 10,
        filters: FilterLike | None = None,
        as_of: TimeLike | None = None,
    ) -> list[Typed[Skill]]:
        """The skills that answer `query`, best first; filters reach in as `metadata.skill.x`."""
        return self._found(query, scope, top_k, filters, as_of)


def _checked(value: V, kind: type[V]) -> V:
    if not isinstance(value, kind):
        raise InvalidInputError(f"add takes a {kind.__name__}, got {shown(value)}")
    return value
