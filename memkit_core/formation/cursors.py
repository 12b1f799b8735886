"""How far the messages of a session were read, what was found but not written yet, and what was set aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memkit_core.formation.budgets import FORMATION
from memkit_core.formation.drafts import Draft
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import Message
from memkit_core.ports import RecordStore
from memkit_core.scope import Scope

_CURSOR = "cursor"
_ASIDE = "aside:"
_PAGE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where formation stands in a session.

    Attributes:
        position: of the last message that was read, -1 before the first.
        pending: what was found up to there and is not known to be written.
        into: the scope it goes to, as its path.
        version: of the stored value, 0 when there is none.
    """

    position: int = -1
    pending: tuple[Draft, ...] = ()
    into: Scope | None = None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """Messages of a session that no extractor could read, from position `first` to `last`; they are kept."""

    session: Scope
    first: int
    last: int
    error: str
    at: datetime


class Cursors:
    """Cursors and what was set aside, as stored values of the session: deleted with it."""

    def __init__(self, store: RecordStore) -> None:
        """Keep them in `store`."""
        self._store = store

    def get(self, session: Scope) -> Place:
        """Where formation stands in a session."""
        stored = self._store.values.get(session, FORMATION, _CURSOR)
        value = None if stored is None else stored.value
        if stored is None or not isinstance(value, dict):
            return Place(version=0 if stored is None else stored.version)
        position, pending, into = value.get("position"), value.get("pending"), value.get("into")
        return Place(
            position=position if isinstance(position, int) else -1,
            pending=tuple(one for one in pending if isinstance(one, dict))
            if isinstance(pending, list)
            else (),
            into=_scope(into),
            version=stored.version,
        )

    def put(self, session: Scope, place: Place, *, now: datetime) -> Place:
        """Keep `place`, whose version is the one it replaces; returns it with its own.

        Raises:
            ConflictError: somebody else moved the cursor.
        """
        into: JsonValue = None if place.into is None else [list(step) for step in place.into.path]
        value: JsonValue = {"position": place.position, "pending": [*place.pending], "into": into}
        stored = self._store.values.put(
            session, FORMATION, _CURSOR, value, expected_version=place.version, now=now
        )
        return Place(position=place.position, pending=place.pending, into=place.into, version=stored.version)

    def unread(self, session: Scope, after: int) -> Iterator[Message]:
        """The messages behind a position, oldest first, up to the newest there is now."""
        newest = self._store.log.read(session, last=1)
        end = (newest[0].position or 0) if newest else -1
        while after < end:
            for message in self._store.log.read(session, last=_PAGE, before=after + 1 + _PAGE):
                if (message.position or 0) > after:
                    yield message
            after += _PAGE

    def newest(self, session: Scope) -> int:
        """The position of the newest message, -1 without any."""
        newest = self._store.log.read(session, last=1)
        return (newest[0].position or 0) if newest else -1

    def between(self, session: Scope, first: int, last: int) -> list[Message]:
        """The messages from one position to another that are still there."""
        found = self._store.log.read(session, last=last - first + 1, before=last + 1)
        return [message for message in found if first <= (message.position or 0) <= last]

    def set_aside(self, session: Scope, messages: Sequence[Message], error: str, *, now: datetime) -> None:
        """Remember that these messages could not be read."""
        first, last = messages[0].position or 0, messages[-1].position or 0
        value: JsonValue = {"first": first, "last": last, "error": error}
        self._store.values.put(session, FORMATION, f"{_ASIDE}{first}", value, now=now)

    def aside(self, session: Scope) -> list[SetAside]:
        """What is set aside of a session, in its order."""
        found = []
        for stored in self._store.values.list(session, FORMATION):
            value = stored.value
            if stored.key.startswith(_ASIDE) and isinstance(value, dict):
                first, last = value.get("first"), value.get("last")
                if isinstance(first, int) and isinstance(last, int):
                    error = str(value.get("error"))
                    found.append(
                        SetAside(session=session, first=first, last=last, error=error, at=stored.updated_at)
                    )
        return sorted(found, key=lambda one: one.first)

    def take_back(self, one: SetAside) -> None:
        """Forget that these messages were set aside."""
        self._store.values.delete(one.session, FORMATION, f"{_ASIDE}{one.first}")


def _scope(path: JsonValue) -> Scope | None:
    if not isinstance(path, list):
        return None
    steps = [(str(one[0]), str(one[1])) for one in path if isinstance(one, list) and len(one) == 2]  # noqa: PLR2004 - kind and id
    return Scope.from_path(tuple(steps))
