"""Sessions and their messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from memkit_core.jsonvalues import JsonValue
from memkit_core.models import DeleteReceipt, MemoryRecord, Message, Session, Summary
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.scope import Scope


class MessageLog(Protocol):
    """Sessions and their messages, verbatim and in append order whatever the clock does."""

    def append(
        self,
        session: Scope,
        messages: Sequence[Message],
        turns: Sequence[MemoryRecord],
        *,
        now: datetime,
        keep: Collection[str] | None = None,
    ) -> list[Message]:
        """Append messages, and the turns that make them searchable, in one transaction.

        Creates the session. No turn is written while its metadata has `SEARCHABLE` False. A message whose id the session has replaces that one in place; a turn
        names its message by id and takes its position; a replaced message without a turn loses the
        one it had. A summary that covers a message goes when it is replaced by one of another role,
        speaker, text or calls. Messages come with ids. Returns them with position and session set.

        With `keep`, the session's messages with other ids are deleted first, as by `delete`, in the
        same transaction, also when there are no messages to append; without, that does nothing.
        """

    def create(
        self, session: Scope, *, title: str | None, metadata: Mapping[str, JsonValue], now: datetime
    ) -> Session:
        """The session, made with this title and metadata if it is not there; an existing one stays as it is."""

    def update(
        self,
        session: Scope,
        *,
        title: str | Omitted | None = OMITTED,
        metadata: Mapping[str, JsonValue] | Omitted = OMITTED,
    ) -> Session:
        """Set the title and the given metadata keys; None removes the title, or a key. One transaction.

        Raises:
            RecordNotFoundError: there is no such session.
        """

    def read(
        self,
        session: Scope,
        *,
        last: int | None = None,
        before: int | None = None,
        agent_id: str | None = None,
        parent_agent_id: str | None = None,
    ) -> list[Message]:
        """The log in append order: all, or the `last` n, below position `before`. Costs what it returns.

        Only the messages of the agent, or with the parent agent, that is given.
        """

    def system_messages(self, session: Scope) -> list[Message]:
        """The system messages of the log, in append order, without reading the rest."""

    def delete(self, session: Scope, ids: Sequence[str]) -> DeleteReceipt:
        """Delete messages and their turns; unknown ids count as nothing.

        The summary goes too when it covers one of them: it may tell what they said.
        """

    def clear(self, session: Scope) -> DeleteReceipt:
        """Delete the session and its log with turns, vectors, summary and stored values; its memories stay."""

    def counts(self) -> tuple[int, int]:
        """How many sessions and how many messages there are, whoever's."""

    def session(self, session: Scope) -> Session | None:
        """The session, None when it was neither created nor appended to."""

    def sessions(
        self, user: Scope, *, limit: int | None = None, after: Session | None = None
    ) -> list[Session]:
        """The sessions of a user, last active first; at most `limit`, those behind `after`."""

    def idle(self, *, since: datetime, until: datetime) -> list[Session]:
        """The sessions of all users that last grew after `since` and at `until` or before, oldest first."""

    def summary(self, session: Scope) -> Summary | None:
        """The summary kept with the session, None when there is none."""

    def save_summary(self, summary: Summary, *, after: int, messages: int) -> bool:
        """Keep `summary` in place of the session's one that ends at position `after` (-1: of none).

        Returns whether it was kept. Nothing changes when the session's summary ends elsewhere by
        now, when `summary` does not reach further, or when other than `messages` messages stand
        behind `after` up to its position: somebody summarised or deleted meanwhile.
        """

    def clear_summary(self, session: Scope) -> DeleteReceipt:
        """Delete the summary of a session; its messages stay."""
