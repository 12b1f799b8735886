"""Between an extractor and the store: what it found, as JSON that survives a kill, and as records."""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from memkit_core.config import Config
from memkit_core.errors import InvalidInputError, MemkitError, shown
from memkit_core.inputs import NewMemory, build_record
from memkit_core.jsonvalues import JsonValue, checked_metadata
from memkit_core.models import MemoryRecord, Message, Origin, RecordType, Role, Status
from memkit_core.ports import Add, Extracted, MemoryView, RecordStore, Step
from memkit_core.scope import Scope
from memkit_core.stores.succession import held_since, holds_slot
from memkit_core.text.clean import normal_form

_log = logging.getLogger("memkit")

SOURCE = "formation"
"""The `source` of every record that formation made."""

Draft = dict[str, JsonValue]
"""What is needed to write one record, with the id it will have."""


def drafts_of(
    found: Sequence[Extracted], messages: Sequence[Message], *, session: Scope, now: datetime, config: Config
) -> tuple[list[Draft], list[str]]:
    """What can be stored of what was found, and what is wrong with the rest. Messages come with ids."""
    drafts: list[Draft] = []
    errors: list[str] = []
    for item in found:
        try:
            draft = _draft(item, messages)
            record_of(draft, session, into=session, now=now, config=config)
        except MemkitError as error:
            errors.append(f"left out: {error}")
        else:
            drafts.append(draft)
    return drafts, errors


def _draft(item: Extracted, messages: Sequence[Message]) -> Draft:
    if not isinstance(item, Extracted):
        raise InvalidInputError(f"an extractor gives memkit_core.ports.Extracted values, got {shown(item)}")
    numbers = dict.fromkeys(n for n in item.sources if type(n) is int and 1 <= n <= len(messages))
    if len(numbers) < len(set(item.sources)):
        _log.warning("an extractor named messages that it was not shown; these are left out")
    told = [messages[number - 1] for number in numbers] or list(messages)
    first = told[0].created_at
    spoken = all(message.role is Role.ASSISTANT for message in told)
    happened = first.isoformat() if item.type is RecordType.EVENT and first is not None else None
    said = max((one.created_at for one in told if one.created_at is not None), default=None)
    return {
        "id": str(uuid.uuid4()),
        "content": item.content,
        "type": str(item.type),
        "key": item.key,
        "confidence": item.confidence,
        "tags": list(item.tags),
        "metadata": checked_metadata(item.metadata),
        "occurred_at": happened,
        "said_at": None if said is None else said.isoformat(),
        "messages": [message.id for message in told],
        "origin": (Origin.ASSISTANT if spoken else Origin.USER).value,
    }


def record_of(
    draft: Mapping[str, Any], session: Scope, *, into: Scope, now: datetime, config: Config
) -> MemoryRecord:
    """The record of a draft; a value of a key holds from when it was said.

    Raises:
        InvalidInputError: it cannot be stored.
    """
    new = NewMemory(
        content=draft["content"], id=draft["id"], type=draft["type"], key=draft["key"],
        confidence=draft["confidence"], tags=draft["tags"], metadata=draft["metadata"],
        occurred_at=draft["occurred_at"], source_message_ids=draft["messages"], origin=draft["origin"],
        source=SOURCE,
    )  # fmt: skip
    record = build_record(
        new, scope=into, now=now, agent_id=config.agent_id, max_chars=config.max_content_chars
    )
    # Drafts that an earlier version left behind do not know when they were said.
    said = draft.get("said_at") if record.key is not None else None
    since = None if said is None else min(datetime.fromisoformat(said), now)
    return dataclasses.replace(record, created_in_session_id=session.id, valid_from=since)


def write(store: RecordStore, records: Sequence[MemoryRecord], *, now: datetime) -> list[MemoryRecord]:
    """Write records as `Memory.add` does, in one transaction; those that are there already stay as they are.

    What takes the place of the value of a key keeps its tags, metadata and pin: they are the user's. What was
    said before that value held does not take its place, it is written as superseded.
    """

    def rule(view: MemoryView) -> Sequence[Step]:
        written: list[MemoryRecord] = []
        held: dict[tuple[Scope, RecordType, str | None], MemoryRecord] = {}
        for record in records:
            if view.get(record.scope, record.id) is not None:
                continue
            slot = _slot(record)
            current = held.get(slot) or view.current(record, now=now)
            written.append(record if current is None else _beside(record, current))
            if holds_slot(written[-1]):
                held[slot] = written[-1]
        return [Add(one, merge=True) for one in _in_turn(written)]

    return store.records.decide(rule) if records else []


def _slot(record: MemoryRecord) -> tuple[Scope, RecordType, str | None]:
    return record.scope, record.type, record.key


def _in_turn(written: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    """These records; of the earlier values of one key each held until the next of them was said."""
    earlier: defaultdict[object, list[MemoryRecord]] = defaultdict(list)
    for record in written:
        if record.status is Status.SUPERSEDED:
            earlier[_slot(record)].append(record)
    followed = {
        one.id: later
        for values in earlier.values()
        for one, later in pairwise(sorted(values, key=held_since))
        if one.valid_until is None or held_since(later) < one.valid_until
    }
    return [
        dataclasses.replace(one, valid_until=held_since(followed[one.id]), superseded_by=followed[one.id].id)
        if one.id in followed
        else one
        for one in written
    ]


def _beside(record: MemoryRecord, current: MemoryRecord) -> MemoryRecord:
    """What `record` is where `current` is the value of its key: that one said again, a later or an earlier one."""
    if normal_form(record.content) == normal_form(current.content):
        return dataclasses.replace(_carrying(record, current), valid_from=current.valid_from)
    if held_since(record) < held_since(current):
        return dataclasses.replace(
            record,
            status=Status.SUPERSEDED,
            valid_until=held_since(current),
            superseded_by=current.id,
        )
    return _carrying(record, current)


def _carrying(record: MemoryRecord, current: MemoryRecord) -> MemoryRecord:
    return dataclasses.replace(
        record,
        tags=tuple(dict.fromkeys((*current.tags, *record.tags))),
        metadata={**current.metadata, **record.metadata},
        pinned=current.pinned,
        importance=max(current.importance, record.importance),
    )
