"""Sessions as such: made, named, listed in pages, and their messages by agent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from memkit_core.errors import RecordNotFoundError
from memkit_core.models import Session
from memkit_core.ports import RecordStore
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import ALICE, NOW, TALK, append, later, message


class SessionsContract(ContractGuard):
    """Titles, metadata, pages and agents."""

    def test_a_session_is_made_once(self, store: RecordStore) -> None:
        """`create` makes a session, and gives back an existing one as it is, also one made by a message."""
        made = store.log.create(TALK, title="Tea", metadata={"n": [1]}, now=NOW)
        assert made == Session(
            scope=TALK, created_at=NOW, updated_at=NOW, messages=0, title="Tea", metadata={"n": [1]}
        )
        assert store.log.create(TALK, title="No", metadata={"m": 2}, now=later(hours=1)) == made
        other = Scope.session("s2", user="alice")
        append(store, other, [message("a")])
        again = store.log.create(other, title="No", metadata={}, now=later(hours=1))
        assert (again.title, again.messages) == (None, 1)
        append(store, TALK, [message("a")], now=later(hours=2))
        found = store.log.session(TALK)
        assert found is not None
        assert (found.title, found.messages, found.metadata) == ("Tea", 1, {"n": [1]})

    def test_threads_make_one_session(self, store: RecordStore) -> None:
        """Eight threads that make the same session get the same one."""
        with ThreadPoolExecutor(8) as pool:
            made = list(
                pool.map(
                    lambda n: store.log.create(TALK, title=f"t{n}", metadata={"n": n}, now=NOW), range(8)
                )
            )
        assert len({session.title for session in made}) == 1
        assert store.log.sessions(ALICE) == made[:1]

    def test_idle_sessions_of_all_users(self, store: RecordStore) -> None:
        """Those that last grew in a span of time, whoever's they are, the longest idle first; a message moves on."""
        sessions = [Scope.session(f"s{n}", user=f"u{n % 2}") for n in range(4)]
        for n, session in enumerate(sessions):
            append(store, session, [message("a")], now=later(hours=n))

        def idle(since: int, until: int) -> list[Scope]:
            found = store.log.idle(since=later(hours=since), until=later(hours=until))
            return [one.scope for one in found]

        assert idle(-1, 9) == sessions
        assert idle(0, 2) == sessions[1:3]
        assert idle(3, 9) == []
        append(store, sessions[0], [message("b")], now=later(hours=5))
        assert idle(-1, 9) == [*sessions[1:], sessions[0]]
        assert store.log.idle(since=NOW, until=later(hours=5))[-1].messages == 2
        store.log.clear(sessions[0])
        assert idle(-1, 9) == sessions[1:]

    def test_title_and_metadata_change(self, store: RecordStore) -> None:
        """Given keys are replaced, None removes; what is not given stays, the times too."""
        store.log.create(TALK, title="Tea", metadata={"a": 1, "b": {"c": None}}, now=NOW)
        changed = store.log.update(TALK, metadata={"a": None, "d": [2], "unknown": None})
        assert (changed.title, changed.metadata) == ("Tea", {"b": {"c": None}, "d": [2]})
        assert changed.updated_at == NOW
        assert store.log.update(TALK, title=None).title is None
        assert store.log.update(TALK, title="Coffee").metadata == {"b": {"c": None}, "d": [2]}
        assert store.log.session(TALK) == store.log.update(TALK)

    def test_an_unknown_session_cannot_change(self, store: RecordStore) -> None:
        """Changing a session that is not there says so and makes none."""
        with pytest.raises(RecordNotFoundError):
            store.log.update(TALK, title="Tea")
        assert store.log.sessions(ALICE) == []

    def test_sessions_come_in_pages(self, store: RecordStore) -> None:
        """Pages give every session once, in the order of the whole list, also those of one moment."""
        for n in range(7):
            store.log.create(
                Scope.session(f"{n}", user="alice"), title=None, metadata={}, now=later(hours=n // 3)
            )
        whole = store.log.sessions(ALICE)
        paged: list[Session] = []
        while page := store.log.sessions(ALICE, limit=2, after=paged[-1] if paged else None):
            assert len(page) <= 2
            paged += page
        assert paged == whole
        assert [one.scope.id for one in whole] == ["6", "5", "4", "3", "2", "1", "0"]
        # A session that grows meanwhile moves to the front; nothing comes twice.
        append(store, whole[2].scope, [message("a")], now=later(days=1))
        assert store.log.sessions(ALICE, after=whole[2]) == whole[3:]

    def test_messages_by_agent(self, store: RecordStore) -> None:
        """`read` gives the messages of an agent, or of a parent agent, alone, with `last` and `before`."""
        names = [("a", None), ("b", "a"), ("c", "a"), (None, None), ("b", "a"), ("b", "c")]
        append(
            store,
            TALK,
            [
                message(str(n), agent_id=agent, parent_agent_id=parent)
                for n, (agent, parent) in enumerate(names)
            ],
        )
        assert [one.id for one in store.log.read(TALK, agent_id="b")] == ["1", "4", "5"]
        assert [one.id for one in store.log.read(TALK, agent_id="b", last=2)] == ["4", "5"]
        assert [one.id for one in store.log.read(TALK, agent_id="b", before=5, last=1)] == ["4"]
        assert [one.id for one in store.log.read(TALK, parent_agent_id="a")] == ["1", "2", "4"]
        assert [one.id for one in store.log.read(TALK, agent_id="b", parent_agent_id="c")] == ["5"]
        assert store.log.read(TALK, agent_id="z") == []
        assert store.log.read(Scope.session("s1", user="bob"), agent_id="b") == []
