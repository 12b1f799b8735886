"""What a store takes of the rows that come from another one: one meaning for every store."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from memkit_core.models import MemoryRecord, Message, StoredValue, Summary
from memkit_core.ports import MovedSession, Outcome, Received


def record_outcome(old: MemoryRecord | None, new: MemoryRecord) -> Outcome:
    """What becomes of `new` beside the record with its identity."""
    if old is None:
        return Outcome.INSERTED
    return _newer((old.version, old.updated_at), (new.version, new.updated_at))


def value_outcome(old: StoredValue | None, new: StoredValue) -> Outcome:
    """As `record_outcome`, for the newest versions of a value."""
    if old is None:
        return Outcome.INSERTED
    return _newer((old.version, old.updated_at), (new.version, new.updated_at))


def summary_outcome(old: Summary | None, new: Summary) -> Outcome:
    """As `record_outcome`, for the summary of a session."""
    if old is None:
        return Outcome.INSERTED
    return _newer((old.position, old.updated_at), (new.position, new.updated_at))


def _newer(old: tuple[int, datetime], new: tuple[int, datetime]) -> Outcome:
    if old == new:
        return Outcome.UNCHANGED
    return Outcome.UPDATED if old < new else Outcome.OLDER


def merged_session(old: MovedSession | None, new: MovedSession) -> tuple[Outcome, MovedSession]:
    """What becomes of a session, and what the store keeps; the count of messages is not looked at."""
    if old is None:
        return Outcome.INSERTED, new
    ahead = max(old.next_position, new.next_position)
    if new.session.updated_at < old.session.updated_at:
        return Outcome.OLDER, dataclasses.replace(old, next_position=ahead)
    session = dataclasses.replace(
        new.session,
        messages=old.session.messages,
        created_at=min(old.session.created_at, new.session.created_at),
    )
    kept = MovedSession(session=session, next_position=ahead)
    return Outcome.UNCHANGED if kept == old else Outcome.UPDATED, kept


def says_the_same(old: Message, new: Message) -> bool:
    """Whether two messages differ in nothing but their place."""
    return repr(old) == repr(dataclasses.replace(new, position=old.position, session=old.session))


def no_session(message_or_summary: str) -> Received:
    """The refusal of what belongs to a session that is not there."""
    return Received(Outcome.REFUSED, f"the session of this {message_or_summary} is not in the store")


NO_MESSAGE = Received(Outcome.REFUSED, "the message of this turn is not in the store")
