"""What a change of a session's title and metadata makes of it: one rule for every store."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from memkit_core.errors import RecordNotFoundError
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import Session
from memkit_core.omitted import Omitted
from memkit_core.scope import Scope


def changed_session(
    old: Session | None,
    *,
    scope: Scope,
    title: str | Omitted | None,
    metadata: Mapping[str, JsonValue] | Omitted,
) -> Session:
    """The session as `MessageLog.update` leaves it.

    Raises:
        RecordNotFoundError: there is none.
    """
    if old is None:
        raise RecordNotFoundError(f"there is no session {scope}; create it, or append a message first")
    kept = dict(old.metadata)
    if not isinstance(metadata, Omitted):
        given = {**kept, **metadata}
        kept = {key: value for key, value in given.items() if key not in metadata or value is not None}
    return dataclasses.replace(old, title=old.title if isinstance(title, Omitted) else title, metadata=kept)
