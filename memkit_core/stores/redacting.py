"""Redaction: every text on its way into a store goes through `Config.redact`, whoever writes it."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, cast

from memkit_core.errors import ConfigError
from memkit_core.locks import ThreadLock
from memkit_core.models import (
    DeleteReceipt,
    MemoryRecord,
    Message,
    RecordChange,
    RecordPatch,
    Session,
    StoredValue,
    Summary,
)
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.ports import (
    Add,
    LoggedRecall,
    MemoryView,
    MessageLog,
    MovedMessage,
    MovedRecord,
    MovedRow,
    MovedSession,
    MovedValue,
    Portable,
    RecallTable,
    Received,
    RecordTable,
    Rewrite,
    Selection,
    Step,
    StoreSnapshot,
    ValueTable,
    Vector,
    VectorSpace,
)
from memkit_core.scope import Scope
from memkit_core.text.redaction import SecretRedactor

if TYPE_CHECKING:
    from memkit_core.jsonvalues import JsonValue
    from memkit_core.ports import Matrix

_log = logging.getLogger("memkit")
T = TypeVar("T", str, "str | None", "str | Omitted", "str | Omitted | None")


class Redaction:
    """Applies a function from text to text to all text of a value, and counts what it took out. Thread-safe.

    Ids, keys, names of sources and agents, and keys of metadata stay: they are identity.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        """Use `redact`; what it returned, given again, it must return as it is."""
        self._redact = redact
        self._lock = ThreadLock()
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """How many of which kind were taken out so far; for a function of your own how many texts it changed."""
        with self._lock:
            return dict(self._counts)

    def text(self, text: T) -> T:
        """The text without what must not be stored.

        Raises:
            ConfigError: the function raised, or returned no text.
        """
        if not isinstance(text, str) or not text:
            return text
        if isinstance(self._redact, SecretRedactor):
            new, found = self._redact.redact(text)
        else:
            new = self._asked(text)
            found = Counter(changed=1) if new != text else Counter()
        if found:
            with self._lock:
                self._counts += found
            _log.info("redacted before storing: %s", dict(found))
        return new

    def _asked(self, text: str) -> str:
        try:
            new = self._redact(text)
        except Exception as error:  # noqa: BLE001 - a function of the user raises what it likes
            # Without its message: that may quote the text.
            raise ConfigError(
                f"Config.redact raised {type(error).__name__}; nothing was stored. It must take any text"
            ) from None
        if not isinstance(new, str):
            raise ConfigError(
                f"Config.redact must return a text, got {type(new).__name__}; nothing was stored"
            )
        return new

    def json(self, value: JsonValue) -> JsonValue:
        """A JSON value with every text in it redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if isinstance(value, Mapping):
            return {key: self.json(item) for key, item in value.items()}
        return value

    def mapping(self, value: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """A mapping with every text in its values redacted."""
        return {key: self.json(item) for key, item in value.items()}

    def record(self, record: MemoryRecord, *, beside: MemoryRecord | None = None) -> MemoryRecord:
        """A record redacted; what it has of `beside`, which is stored, was redacted before."""
        new: dict[str, object] = {}
        if beside is None or record.content != beside.content:
            new["content"] = self.text(record.content) or record.content
        if beside is None or record.metadata != beside.metadata:
            new["metadata"] = self.mapping(record.metadata)
        if beside is None or record.tags != beside.tags:
            new["tags"] = tuple(dict.fromkeys(self.text(tag) for tag in record.tags))
        return dataclasses.replace(record, **new)  # type: ignore[arg-type]  # names and types stand above

    def message(self, message: Message) -> Message:
        """A message redacted, with its calls and the framework's own form of it."""
        return dataclasses.replace(
            message,
            text=self.text(message.text),
            speaker=self.text(message.speaker),
            tool_calls=tuple(
                dataclasses.replace(call, arguments=self.text(call.arguments)) for call in message.tool_calls
            ),
            metadata=self.mapping(message.metadata),
            payload=self.json(message.payload),
        )

    def patch(self, patch: RecordPatch) -> RecordPatch:
        """What an update changes, redacted."""
        return dataclasses.replace(
            patch,
            content=self.text(patch.content),
            tags=patch.tags if isinstance(patch.tags, Omitted) else tuple(self.text(t) for t in patch.tags),
            metadata=OMITTED if isinstance(patch.metadata, Omitted) else self.mapping(patch.metadata),
        )

    def step(self, step: Step) -> Step:
        """A write that a rule decided, redacted."""
        match step:
            case Add(record, _):
                return dataclasses.replace(step, record=self.record(record))
            case Rewrite(old, new):
                return dataclasses.replace(
                    step, new=self.record(new, beside=old), reason=self.text(step.reason)
                )
            case _:
                return step

    def moved(self, row: MovedRow) -> MovedRow:
        """A row from an import, redacted; where its text changed it waits for a new vector."""
        match row:
            case MovedRecord(record=record, history=history):
                new = self.record(record)
                vector: Vector | None = row.vector if new.index_text == record.index_text else None
                told = tuple(self._change(change) for change in history)
                return dataclasses.replace(row, record=new, vector=vector, history=told)
            case MovedMessage(message=message):
                return dataclasses.replace(row, message=self.message(message))
            case MovedSession(session=session):
                return dataclasses.replace(row, session=self._session(session))
            case MovedValue(versions=versions):
                kept = tuple(dataclasses.replace(one, value=self.json(one.value)) for one in versions)
                return dataclasses.replace(row, versions=kept)
            case Summary(text=text):
                return dataclasses.replace(row, text=self.text(text))
            case _:
                return row

    def _change(self, change: RecordChange) -> RecordChange:
        return dataclasses.replace(
            change,
            before=self.mapping(change.before),
            dropped=self.mapping(change.dropped),
            reason=self.text(change.reason),
        )

    def _session(self, session: Session) -> Session:
        return dataclasses.replace(
            session, title=self.text(session.title), metadata=self.mapping(session.metadata)
        )


class _Wrapper:
    """Hands every method it does not have to what it wraps: a test holds that each of those writes no text."""

    def __init__(self, wrapped: object, redaction: Redaction) -> None:
        self._wrapped = wrapped
        self._redaction = redaction

    def __getattr__(self, name: str) -> object:
        return getattr(self._wrapped, name)


class _Records(_Wrapper):
    _wrapped: RecordTable

    def put(
        self,
        scope: Scope,
        records: Sequence[MemoryRecord],
        *,
        vector_space: VectorSpace | None = None,
        vectors: Matrix | None = None,
        merge: Collection[str] = (),
    ) -> list[MemoryRecord]:
        """See `RecordTable.put`."""
        clean = [self._redaction.record(record) for record in records]
        return self._wrapped.put(scope, clean, vector_space=vector_space, vectors=vectors, merge=merge)

    def replace(
        self,
        scope: Scope,
        space: str,
        sources: Sequence[str],
        records: Sequence[MemoryRecord] = (),
        *,
        ids: Sequence[str] = (),
        vector_space: VectorSpace | None = None,
    ) -> tuple[list[MemoryRecord], DeleteReceipt]:
        """See `RecordTable.replace`."""
        clean = [self._redaction.record(record) for record in records]
        return self._wrapped.replace(scope, space, sources, clean, ids=ids, vector_space=vector_space)

    def change(
        self,
        scope: Scope,
        space: str,
        record_id: str,
        patch: RecordPatch,
        *,
        expected_version: int | None = None,
        now: datetime,
    ) -> MemoryRecord:
        """See `RecordTable.change`."""
        clean = self._redaction.patch(patch)
        return self._wrapped.change(
            scope, space, record_id, clean, expected_version=expected_version, now=now
        )

    def decide(self, rule: Callable[[MemoryView], Sequence[Step]]) -> list[MemoryRecord]:
        """See `RecordTable.decide`."""
        return self._wrapped.decide(lambda view: [self._redaction.step(step) for step in rule(view)])


class _Log(_Wrapper):
    _wrapped: MessageLog

    def append(
        self,
        session: Scope,
        messages: Sequence[Message],
        turns: Sequence[MemoryRecord],
        *,
        now: datetime,
        keep: Collection[str] | None = None,
    ) -> list[Message]:
        """See `MessageLog.append`."""
        said = [self._redaction.message(message) for message in messages]
        told = [self._redaction.record(turn) for turn in turns]
        return self._wrapped.append(session, said, told, now=now, keep=keep)

    def create(
        self, session: Scope, *, title: str | None, metadata: Mapping[str, JsonValue], now: datetime
    ) -> Session:
        """See `MessageLog.create`."""
        named, clean = self._redaction.text(title), self._redaction.mapping(metadata)
        return self._wrapped.create(session, title=named, metadata=clean, now=now)

    def update(
        self,
        session: Scope,
        *,
        title: str | Omitted | None = OMITTED,
        metadata: Mapping[str, JsonValue] | Omitted = OMITTED,
    ) -> Session:
        """See `MessageLog.update`."""
        clean = metadata if isinstance(metadata, Omitted) else self._redaction.mapping(metadata)
        return self._wrapped.update(session, title=self._redaction.text(title), metadata=clean)

    def save_summary(self, summary: Summary, *, after: int, messages: int) -> bool:
        """See `MessageLog.save_summary`."""
        clean = dataclasses.replace(summary, text=self._redaction.text(summary.text))
        return self._wrapped.save_summary(clean, after=after, messages=messages)


class _Values(_Wrapper):
    _wrapped: ValueTable

    def put(
        self,
        scope: Scope,
        kind: str,
        key: str,
        value: JsonValue,
        *,
        label: str | None = None,
        expected_version: int | None = None,
        keep: int = 0,
        now: datetime,
    ) -> StoredValue:
        """See `ValueTable.put`."""
        clean = self._redaction.json(value)
        return self._wrapped.put(
            scope, kind, key, clean, label=label, expected_version=expected_version, keep=keep, now=now
        )


class _Recalls(_Wrapper):
    _wrapped: RecallTable

    def append(self, recalls: Sequence[LoggedRecall], *, keep: int, texts: bool) -> None:
        """See `RecallTable.append`."""
        clean = []
        for one in recalls:
            try:
                clean.append(dataclasses.replace(one, query=self._redaction.text(one.query)))
            except ConfigError as error:
                # Kept for later it would fail again, and stand in the way of all that is written with it.
                _log.warning("a recall is not logged: %s", error)
        self._wrapped.append(clean, keep=keep, texts=texts)


class _Portable:
    def __init__(self, wrapped: Portable, redaction: Redaction) -> None:
        self._wrapped = wrapped
        self._redaction = redaction

    def snapshot(self, selection: Selection) -> AbstractContextManager[StoreSnapshot]:
        """See `Portable.snapshot`."""
        return self._wrapped.snapshot(selection)

    def receive(self, rows: Sequence[MovedRow]) -> list[Received]:
        """See `Portable.receive`."""
        return self._wrapped.receive([self._redaction.moved(row) for row in rows])

    def settle_keys(self, *, now: datetime, limit: int) -> int:
        """See `Portable.settle_keys`."""
        return self._wrapped.settle_keys(now=now, limit=limit)


def redacting_records(table: RecordTable, redaction: Redaction) -> RecordTable:
    """The records, redacted on their way in."""
    # A wrapper has every method of what it wraps, which no type checker sees; so below.
    return cast("RecordTable", _Records(table, redaction))


def redacting_log(log: MessageLog, redaction: Redaction) -> MessageLog:
    """Sessions and messages, redacted on their way in."""
    return cast("MessageLog", _Log(log, redaction))


def redacting_values(values: ValueTable, redaction: Redaction) -> ValueTable:
    """Stored values, redacted on their way in."""
    return cast("ValueTable", _Values(values, redaction))


def redacting_recalls(recalls: RecallTable, redaction: Redaction) -> RecallTable:
    """The recall log, redacted on its way in."""
    return cast("RecallTable", _Recalls(recalls, redaction))


def redacting_portable(portable: Portable, redaction: Redaction) -> Portable:
    """Rows that are moved, redacted on their way in."""
    return _Portable(portable, redaction)
