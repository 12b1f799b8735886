"""Compaction: several memories of a scope become one of type summary (spec A6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from memkit_core.config import Config
from memkit_core.errors import CompactionError, InvalidInputError, shown
from memkit_core.inputs import NewMemory, build_record, checked_content
from memkit_core.life.transitions import together
from memkit_core.models import ChangeKind, MemoryRecord, RecordType, Status
from memkit_core.ports import Add, MemoryView, Rewrite, Step
from memkit_core.stores.succession import superseded


def check_sources(found: Iterable[MemoryRecord], ids: Sequence[str]) -> None:
    """Refuse to make one memory of what is not there, or not active.

    Raises:
        CompactionError: names the first one.
    """
    active = {record.id for record in found if record.status is Status.ACTIVE}
    for record_id in ids:
        if record_id not in active:
            raise CompactionError(
                f"compact: no active record {shown(record_id)} in this scope; nothing was changed"
            )


def summarized(
    records: Sequence[MemoryRecord], summarize: Callable[[list[MemoryRecord]], str], *, max_chars: int
) -> str:
    """What the callback makes of the memories.

    Raises:
        CompactionError: it raised, or returned what cannot be stored.
    """
    try:
        # A caller's function may raise anything: it is told, as the cause, and stops nothing else.
        text = summarize(list(records))
    except Exception as error:
        raise CompactionError(
            f"compact: summarize raised {type(error).__name__}: {error}; nothing was changed"
        ) from error
    try:
        return checked_content(text, max_chars=max_chars)
    except InvalidInputError as error:
        raise CompactionError(
            f"compact: summarize must return text that says something; {error}; nothing was changed"
        ) from error


def compacted(
    records: Sequence[MemoryRecord], content: str, tags: tuple[str, ...], *, now: datetime, config: Config
) -> MemoryRecord:
    """The summary: it is pinned if one of the sources is, and expires with the last of them, if all do."""
    expiries = [record.expires_at for record in records]
    messages = dict.fromkeys(i for record in records for i in record.source_message_ids)
    new = NewMemory(
        content=content,
        type=RecordType.SUMMARY,
        tags=tags,
        pinned=any(record.pinned for record in records),
        expires_at=None if None in expiries else max(filter(None, expiries)),
        source_message_ids=tuple(messages),
    )
    record = build_record(
        new, scope=records[0].scope, now=now, agent_id=config.agent_id, max_chars=config.max_content_chars
    )
    return dataclasses.replace(record, compacted_from_ids=tuple(record.id for record in records))


def replace_sources(view: MemoryView, read: Sequence[MemoryRecord], summary: MemoryRecord) -> list[Step]:
    """The steps that put the summary in the place of its sources, as they were read.

    Raises:
        CompactionError: one of them was changed or deleted meanwhile.
    """
    steps: list[Rewrite] = []
    for before in read:
        record = view.get(summary.scope, before.id)
        if record is None or not record.is_visible_at(summary.created_at):
            check_sources((), [before.id])
        elif record.version != before.version:
            raise CompactionError(
                f"compact: record {shown(record.id)} was changed while it was summarised; nothing was "
                "changed, try again"
            )
        else:
            after = superseded(record, summary, at=summary.created_at)
            steps.append(Rewrite(record, after, ChangeKind.SUPERSEDED))
    return [Add(summary), *together(steps, summary)]
