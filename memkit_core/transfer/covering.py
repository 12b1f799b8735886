"""Whether a summary that is imported tells what the store's own log says."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

from memkit_core.models import Message, Summary
from memkit_core.ports import Outcome
from memkit_core.scope import Scope

_PAGE = 500

ReadLog = Callable[[Scope, int, int], Sequence[Message]]
"""The last so many messages of a session below a position, in append order."""


class Covered:
    """The messages of the session whose lines are read, where the store had that session before."""

    def __init__(self, read: ReadLog) -> None:
        """Look into the store with `read`."""
        self._read = read
        self.begin(None, whole=True)

    def begin(self, session: Scope | None, *, whole: bool) -> None:
        """The lines of another session follow; None for one that the store has from this import alone.

        `whole` says that the file holds its messages, and not only those that changed.
        """
        self._session = session
        self._whole = whole
        # 16 bytes a message, however long the conversation is.
        self._positions, self._ids = array("q"), array("q")
        self._apart: int | None = None

    @property
    def watched(self) -> bool:
        """Whether the store may hold other messages of the session."""
        return self._session is not None

    def took(self, message: Message, outcome: Outcome) -> None:
        """What became of a message of the session."""
        if self._session is None or message.position is None:
            return
        self._positions.append(message.position)
        self._ids.append(hash(message.id))
        if outcome in (Outcome.OLDER, Outcome.REFUSED) and self._apart is None:
            self._apart = message.position

    def differ(self, summary: Summary) -> bool:
        """Whether the store's messages up to where `summary` reaches are others than the file's."""
        if self._session is None:
            return False
        if self._apart is not None and self._apart <= summary.position:
            return True
        expected = {
            position: number
            for position, number in zip(self._positions, self._ids, strict=True)
            if position <= summary.position
        }
        found = 0
        # What the file's session began with may be deleted there, and stand here all the same.
        first = 0 if self._whole else min(expected, default=0)
        for message in self._stored(first, summary.position):
            assert message.position is not None
            if expected.get(message.position) == hash(message.id):
                found += 1
            elif self._whole or message.position in expected:
                return True
        return found < len(expected)

    def _stored(self, first: int, last: int) -> Iterator[Message]:
        """The store's messages from one position to another, the newest page first."""
        assert self._session is not None
        before = last + 1
        while page := self._read(self._session, _PAGE, before):
            yield from (message for message in page if (message.position or 0) >= first)
            before = page[0].position or 0
            if before <= first:
                return
