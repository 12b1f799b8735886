"""`MessageLog`: verbatim, in append order whatever the clock does."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import pytest

from memkit_core.errors import MemkitError
from memkit_core.models import (
    SEARCHABLE,
    DeleteReceipt,
    MemoryRecord,
    Message,
    Role,
    Session,
    Summary,
    Target,
    ToolCall,
)
from memkit_core.ports import RecordStore
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    NOW,
    TALK,
    append,
    embed_all,
    found_by_words,
    later,
    message,
    record,
    stored_kinds,
    turns,
)

_FULL = Message(
    id="full",
    role=Role.ASSISTANT,
    text='Let me look.\n"quotes" 丹佛 👩‍👧 \' -- \\',
    speaker="Bo",
    tool_calls=(ToolCall(id="c1", name="look_up", arguments='{"q": "ü"}'), ToolCall(id="c2", name="x")),
    tool_call_id="c0",
    created_at=later(days=-1),
    agent_id="agent",
    parent_agent_id="parent",
    metadata={"a": [1, 1.5, None, {"b": True}]},
    payload={"z": [1, {"a": None}], "a": "kept in this order", "n": 1.0},
    format="langchain",
    indexed=False,
)


class LogContract(ContractGuard):
    """Sessions and their messages."""

    def test_every_field_of_a_message_comes_back(self, store: RecordStore) -> None:
        """Every field of a message survives, payload key order included; `append` returns what is read."""
        plain = Message(role=Role.USER, text="")
        unset = {"session", "position"}
        same = {
            f.name for f in dataclasses.fields(Message) if getattr(_FULL, f.name) == getattr(plain, f.name)
        }
        assert same == unset  # so that no field passes by being left at its default
        (stored,) = append(store, TALK, [_FULL])
        assert stored == dataclasses.replace(_FULL, session=TALK, position=0)
        (read,) = store.log.read(TALK)
        assert read == stored
        assert isinstance(read.payload, dict)
        assert list(read.payload) == ["z", "a", "n"]

    def test_append_returns_what_is_read(self, store: RecordStore) -> None:
        """What `append` returns equals what `read` returns, for replaced messages and missing times too."""
        append(store, TALK, [message("a"), message("b", created_at=later(days=-3))])
        returned = append(
            store, TALK, [message("a", "new"), message("b", "new"), message("c")], now=later(hours=1)
        )
        assert returned == store.log.read(TALK)
        assert [one.created_at for one in returned] == [NOW, later(days=-3), later(hours=1)]

    @pytest.mark.parametrize("step", [0, -3600, 3600])
    def test_append_order_whatever_the_clock_does(self, store: RecordStore, step: int) -> None:
        """With a frozen, a backward and a forward clock the log reads in append order."""
        names = [str(i) for i in range(60)]
        for i, name in enumerate(names[:20]):
            append(store, TALK, [message(name)], now=later(seconds=step * i))
        append(store, TALK, [message(name) for name in names[20:]], now=later(days=-9))
        read = store.log.read(TALK)
        assert [one.id for one in read] == names
        positions = [one.position for one in read if one.position is not None]
        assert positions == sorted(set(positions))
        assert len(positions) == 60

    def test_the_same_id_replaces_in_place(self, store: RecordStore) -> None:
        """A known id replaces that message where it stands; text, turn and count follow."""
        append(store, TALK, [message("a", "tea"), message("b"), message("c")])
        append(store, TALK, [message("d"), message("a", "coffee")])
        assert store.log.read(TALK)[0].text == "coffee"
        assert [one.id for one in store.log.read(TALK)] == ["a", "b", "c", "d"]
        session = store.log.session(TALK)
        assert session is not None
        assert session.messages == 4
        assert found_by_words(store, turns(TALK), "coffee") == {"a"}
        assert found_by_words(store, turns(TALK), "tea") == set()

    def test_the_same_id_twice_in_a_call_is_one_message(self, store: RecordStore) -> None:
        """The same id twice in one call is one message with the last text, at the first place."""
        stored = append(store, TALK, [message("m1", "x"), message("m2", "y"), message("m1", "z")])
        assert [one.text for one in stored] == ["z", "y", "z"]
        assert [(one.id, one.text, one.position) for one in store.log.read(TALK)] == [
            ("m1", "z", 0),
            ("m2", "y", 1),
        ]

    def test_a_replaced_message_without_a_turn_loses_its_own(self, store: RecordStore) -> None:
        """A message that is no turn any more is found no more."""
        append(store, TALK, [message("a", "tea")])
        append(store, TALK, [message("a", "tea", indexed=False)])
        assert found_by_words(store, turns(TALK), "tea") == set()
        assert len(store.log.read(TALK)) == 1

    def test_a_failing_append_changes_nothing(self, store: RecordStore) -> None:
        """One message that cannot be stored leaves no message, no turn and no session."""
        bad = message("bad", metadata={"x": float("nan")}, indexed=False)
        with pytest.raises((MemkitError, ValueError, TypeError)):
            append(store, TALK, [message("a"), bad])
        assert store.log.read(TALK) == []
        assert store.log.session(TALK) is None
        assert found_by_words(store, turns(TALK)) == set()

    def test_appending_nothing_does_nothing(self, store: RecordStore) -> None:
        """An empty append creates no session."""
        assert append(store, TALK, []) == []
        assert store.log.session(TALK) is None

    def test_paging_backwards(self, store: RecordStore) -> None:
        """`last` and `before` page backwards through the log, in append order within each page."""
        append(store, TALK, [message(str(i)) for i in range(10)])
        store.log.delete(TALK, ["7"])
        assert [one.id for one in store.log.read(TALK, last=3)] == ["6", "8", "9"]
        assert [one.id for one in store.log.read(TALK, last=3, before=6)] == ["3", "4", "5"]
        assert [one.id for one in store.log.read(TALK, before=2)] == ["0", "1"]
        assert store.log.read(TALK, last=0) == []
        assert store.log.read(TALK, before=0) == []
        assert len(store.log.read(TALK, last=100)) == 9

    def test_a_window_costs_the_window(self, store: RecordStore) -> None:
        """The last twenty of five thousand messages cost a small part of reading them all."""
        plain = [message(f"m{i}", "x" * 200, indexed=False) for i in range(5000)]
        append(store, TALK, plain)
        assert [one.id for one in store.log.read(TALK, last=1)] == ["m4999"]
        window = _fastest(lambda: store.log.read(TALK, last=20))
        assert window < _fastest(lambda: store.log.read(TALK)) / 10
        assert _fastest(lambda: store.log.system_messages(TALK)) < _fastest(lambda: store.log.read(TALK)) / 5

    def test_system_messages(self, store: RecordStore) -> None:
        """`system_messages` gives those of the session alone, in append order."""
        append(store, TALK, [message(str(i), role=Role.SYSTEM if i % 2 else Role.USER) for i in range(6)])
        append(store, Scope.session("s2", user="alice"), [message("x", role=Role.SYSTEM)])
        assert [one.id for one in store.log.system_messages(TALK)] == ["1", "3", "5"]
        assert store.log.system_messages(Scope.session("unknown", user="alice")) == []

    def test_delete_takes_the_turns_along(self, store: RecordStore) -> None:
        """Deleting messages deletes their turns and vectors, counts them, and frees no position."""
        append(store, TALK, [message("a"), message("b", role=Role.SYSTEM), message("c")])
        embed_all(store)
        receipt = store.log.delete(TALK, ["a", "b", "a", "unknown"])
        assert stored_kinds(receipt) == DeleteReceipt(messages=2, turns=1, vectors=1)
        assert [one.id for one in store.log.read(TALK)] == ["c"]
        assert found_by_words(store, turns(TALK)) == {"c"}
        assert store.log.delete(TALK, ["a"]).nothing
        assert append(store, TALK, [message("a")])[0].position == 3
        session = store.log.session(TALK)
        assert session is not None
        assert session.messages == 2

    def test_clear_keeps_the_memories(self, store: RecordStore) -> None:
        """Clearing a session deletes it with its log, turns and vectors; memories of its scope stay."""
        store.records.put(TALK, [record(TALK, "memory")])
        append(store, TALK, [message("a"), message("b", role=Role.SYSTEM)])
        embed_all(store)
        assert stored_kinds(store.log.clear(TALK)) == DeleteReceipt(
            messages=2, sessions=1, turns=1, vectors=1
        )
        assert store.log.session(TALK) is None
        assert store.log.read(TALK) == []
        assert found_by_words(store, turns(TALK)) == set()
        assert found_by_words(store, Target(scope=TALK)) == {"memory"}
        assert store.log.clear(TALK).nothing

    def test_sessions_of_a_user(self, store: RecordStore) -> None:
        """A session has its times and its length; a user's sessions come last active first."""
        one, two = (Scope.session(name, user="alice") for name in ("one", "two"))
        append(store, one, [message("a")], now=NOW)
        append(store, two, [message("a")], now=later(hours=1))
        append(store, one, [message("b")], now=later(hours=2))
        append(store, two, [message("b")], now=later(hours=-5))
        append(store, Scope.session("one", user="bob"), [message("a")], now=later(hours=9))
        assert store.log.sessions(ALICE) == [
            Session(scope=one, created_at=NOW, updated_at=later(hours=2), messages=2),
            Session(scope=two, created_at=later(hours=1), updated_at=later(hours=1), messages=2),
        ]
        assert store.log.session(one) == store.log.sessions(ALICE)[0]
        assert store.log.sessions(Scope.user("nobody")) == []

    def test_a_summary_moves_forward_only(self, store: RecordStore) -> None:
        """A summary is kept with its session; only one that follows the kept one and reaches further replaces it."""
        append(store, TALK, [message(str(i)) for i in range(6)])
        assert store.log.summary(TALK) is None
        first = _summary("first", 2)
        assert not store.log.save_summary(first, after=-1, messages=2)
        assert store.log.save_summary(first, after=-1, messages=3)
        assert store.log.summary(TALK) == first
        for late, after, messages in ((_summary("x", 4), -1, 5), (_summary("x", 2), 2, 0), (first, 2, 0)):
            assert not store.log.save_summary(late, after=after, messages=messages)
        assert not store.log.save_summary(_summary("x", 4), after=4, messages=0)
        assert store.log.summary(TALK) == first
        second = _summary("second 丹佛", 4)
        assert store.log.save_summary(second, after=2, messages=2)
        assert store.log.summary(TALK) == second

    def test_no_summary_without_its_session(self, store: RecordStore) -> None:
        """No summary is kept of a session that is not there, and a session has its own alone."""
        assert not store.log.save_summary(_summary("x", 2), after=-1, messages=0)
        append(store, TALK, [message("a")])
        assert store.log.save_summary(_summary("mine", 0), after=-1, messages=1)
        other = Scope.session(TALK.id, user="bob")
        append(store, other, [message("a")])
        assert store.log.summary(other) is None
        assert store.log.clear_summary(other).nothing
        assert stored_kinds(store.log.clear_summary(TALK)) == DeleteReceipt(summaries=1)
        assert store.log.summary(TALK) is None
        assert store.log.clear_summary(TALK).nothing

    def test_a_deleted_message_is_in_no_summary(self, store: RecordStore) -> None:
        """Deleting a message deletes the summary that covers it, and none that was under way is kept."""
        append(store, TALK, [message(str(i), indexed=False) for i in range(6)])
        store.log.save_summary(_summary("of three", 2), after=-1, messages=3)
        assert stored_kinds(store.log.delete(TALK, ["4"])) == DeleteReceipt(messages=1)
        assert store.log.summary(TALK) is not None
        assert stored_kinds(store.log.delete(TALK, ["5", "1", "1"])) == DeleteReceipt(messages=2, summaries=1)
        assert store.log.summary(TALK) is None
        assert not store.log.save_summary(_summary("of four", 3), after=-1, messages=4)
        assert not store.log.save_summary(_summary("of one more", 3), after=2, messages=1)

    def test_a_session_may_be_kept_out_of_search(self, store: RecordStore) -> None:
        """While its metadata says so no turn of a session is written, and a replaced message loses its own."""
        append(store, TALK, [message("a", "tea"), message("b", "tea")])
        store.log.update(TALK, metadata={SEARCHABLE: False})
        append(store, TALK, [message("c", "tea"), message("a", "tea")])
        assert found_by_words(store, turns(TALK), "tea") == {"b"}
        store.log.update(TALK, metadata={SEARCHABLE: None})
        append(store, TALK, [message("c", "tea")])
        assert found_by_words(store, turns(TALK), "tea") == {"b", "c"}
        assert [one.id for one in store.log.read(TALK)] == ["a", "b", "c"]

    def test_a_changed_message_is_in_no_summary(self, store: RecordStore) -> None:
        """A summary goes when a message it covers says something else by now, and stays when it says the same."""
        append(store, TALK, [message(str(i), indexed=False) for i in range(6)])
        assert store.log.save_summary(_summary("of three", 2), after=-1, messages=3)
        [again] = [one for one in store.log.read(TALK) if one.id == "1"]
        append(store, TALK, [dataclasses.replace(again, metadata={"seen": True})])
        append(store, TALK, [message("4", text="another", indexed=False)])
        assert store.log.summary(TALK) is not None
        append(store, TALK, [dataclasses.replace(again, text="corrected")])
        assert store.log.summary(TALK) is None
        assert store.log.save_summary(_summary("of three", 2), after=-1, messages=3)

    def test_deletes_take_the_summary_along(self, store: RecordStore) -> None:
        """Clearing a session, deleting its scope, its user or everything deletes the summary and counts it."""
        deletes: list[Callable[[], DeleteReceipt]] = [
            lambda: store.log.clear(TALK),
            lambda: store.records.delete_scope(TALK),
            lambda: store.records.delete_scope(ALICE),
            store.records.delete_everything,
        ]
        for delete in deletes:
            append(store, TALK, [message("a", indexed=False)])
            assert store.log.save_summary(_summary("x", 0), after=-1, messages=1)
            assert stored_kinds(delete()) == DeleteReceipt(messages=1, sessions=1, summaries=1)
            assert store.log.summary(TALK) is None

    def test_a_turn_carries_the_messages_words_alone(self, store: RecordStore) -> None:
        """The turn of one message is not given to another."""
        append(store, TALK, [message("a", "tea"), message("b", "coffee")])
        found: list[MemoryRecord] = store.records.get(TALK, "messages", ["a", "b"], now=NOW)
        assert [one.content for one in found] == ["tea", "coffee"]
        assert store.records.get(BOB, "messages", ["a", "b"], now=NOW) == []


def _summary(text: str, position: int) -> Summary:
    return Summary(session=TALK, text=text, position=position, updated_at=NOW)


def _fastest(call: Callable[[], object]) -> float:
    """Seconds of its thread that the fastest of five calls takes: what the machine does besides only ever adds."""
    times = []
    for _ in range(5):
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return min(times)
