"""`RecordTable`: what is written comes back, whole or not at all."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings

from memkit_core.errors import MemkitError, ScopeError
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import (
    MEMORIES,
    MESSAGES,
    DeleteReceipt,
    MemoryRecord,
    Origin,
    RecordType,
    Role,
    Status,
    Target,
)
from memkit_core.ports import ListQuery, RecordStore
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    INJECTIONS,
    NOW,
    TALK,
    append,
    confirm_all,
    due,
    embed_all,
    found_by_words,
    later,
    message,
    record,
    stored_kinds,
    turns,
)
from memkit_core.testing.strategies import metadata
from memkit_core.text.tokenizer import keyword_terms

PROPERTY = settings(
    deadline=None,
    max_examples=60,
    # One store serves all examples of a test, and one test all stores.
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)
"""The settings of the contracts' property tests."""

_FULL = MemoryRecord(
    id="full",
    scope=ALICE,
    content="Alice likes green tea.",
    created_at=NOW,
    updated_at=later(seconds=1),
    space="documents:teas",
    type=RecordType.PREFERENCE,
    key="drink.tea",
    importance=0.25,
    pinned=True,
    status=Status.PENDING,
    tags=("tea", "青"),
    metadata={"a": [1, 1.5, "x", None, True, {"b": {}}], "n": 2**63 - 1, "f": 0.1, "t": 1.0},
    occurred_at=later(days=-400),
    last_accessed_at=later(seconds=2),
    access_count=3,
    expires_at=later(days=1),
    valid_from=later(days=-2),
    valid_until=later(days=2),
    version=4,
    supersedes="older",
    superseded_by="newer",
    agent_id="agent",
    source="crm",
    confidence=0.75,
    created_in_session_id="s0",
    promoted_from_id="p0",
    compacted_from_ids=("c1", "c2"),
    source_message_ids=("m1", "m2"),
    origin=Origin.TOOL,
    mentions=3,
)
_TEXTS = (
    "plain", "quotes \" ' ` and \\", "tab\tnew\nline\r\n", "  spaces  ", "naïve café", "e\u0301 é", "丹佛 東京 서울",
    "👩‍👧‍👦 🦉", "שלום مرحبا", "\ufeffbom \u200b", "\u0001\u001f\u007f", "\ufffd", "x" * 100_000, "é" * 50_000,
)  # fmt: skip


class RecordsContract(ContractGuard):
    """Writing, reading by id, and deleting."""

    @pytest.fixture
    def store(self) -> RecordStore:
        """The store under test; every subclass gives its own."""
        raise NotImplementedError("give the contract a fixture named store")

    def test_every_field_comes_back(self, store: RecordStore) -> None:
        """Every field of a record survives, and `put` returns what later reads return."""
        plain = {field.name for field in dataclasses.fields(MemoryRecord)} - {"id", "scope"}
        default = record(ALICE, "full", _FULL.content)
        same = {name for name in plain if getattr(_FULL, name) == getattr(default, name)}
        assert same == {"content", "created_at"}  # so that no field passes by being left at its default
        assert store.records.put(ALICE, [_FULL]) == [_FULL]
        assert store.records.get(ALICE, _FULL.space, ["full"], now=NOW) == [_FULL]

    @pytest.mark.parametrize("text", _TEXTS, ids=range(len(_TEXTS)))
    def test_text_comes_back_unchanged(self, store: RecordStore, text: str) -> None:
        """Content, ids, keys and sources come back character by character: nothing is normalised."""
        one = record(ALICE, text[:4000], text, key=text[:4000], source=text[:4000], tags=(text[:4000],))
        store.records.put(ALICE, [one])
        assert store.records.get(ALICE, MEMORIES, [text[:4000]], now=NOW) == [one]

    @PROPERTY
    @given(free=metadata())
    def test_metadata_comes_back_equal(self, store: RecordStore, free: dict[str, JsonValue]) -> None:
        """Metadata comes back with equal values of equal types."""
        store.records.put(ALICE, [record(ALICE, "m", metadata=free)])
        (found,) = store.records.get(ALICE, MEMORIES, ["m"], now=NOW)
        assert _typed(dict(found.metadata)) == _typed(free)

    def test_nothing_is_shared_with_the_caller(self, store: RecordStore) -> None:
        """Changing what was put in, or what came out, changes nothing in the store."""
        free: dict[str, JsonValue] = {"list": [1]}
        given_back = store.records.put(ALICE, [record(ALICE, "m", metadata=free)])
        read = store.records.get(ALICE, MEMORIES, ["m"], now=NOW)
        for one in (free, read[0].metadata, given_back[0].metadata):
            inner = one["list"]
            assert isinstance(inner, list)
            inner.append("changed")
        assert store.records.get(ALICE, MEMORIES, ["m"], now=NOW)[0].metadata == {"list": [1]}

    def test_a_known_id_is_replaced(self, store: RecordStore) -> None:
        """A known (space, id) is replaced: created_at and access statistics stay, version counts up."""
        first = record(ALICE, "r", "tea", access_count=2, last_accessed_at=NOW, tags=("old",))
        store.records.put(ALICE, [first])
        new = record(ALICE, "r", "coffee", created_at=later(days=1), updated_at=later(days=1), tags=("new",))
        (stored,) = store.records.put(ALICE, [new])
        assert stored == dataclasses.replace(
            new, created_at=NOW, access_count=2, last_accessed_at=NOW, version=2
        )
        assert store.records.get(ALICE, MEMORIES, ["r"], now=NOW) == [stored]
        assert found_by_words(store, Target(scope=ALICE), "tea") == set()
        assert found_by_words(store, Target(scope=ALICE), "coffee") == {"r"}
        assert len(store.records.list(ALICE, ListQuery(tags=("old",)), now=NOW)) == 0
        assert len(store.records.list(ALICE, ListQuery(tags=("new",)), now=NOW)) == 1

    def test_nothing_is_kept_of_what_has_expired(self, store: RecordStore) -> None:
        """Of an expired record that is replaced only the version goes on: created_at and accesses are new."""
        store.records.put(
            ALICE, [record(ALICE, "r", "tea", access_count=2, last_accessed_at=NOW, expires_at=later(days=1))]
        )
        new = record(ALICE, "r", "coffee", created_at=later(days=1), updated_at=later(days=1))
        assert store.records.put(ALICE, [new]) == [dataclasses.replace(new, version=2)]

    def test_the_same_id_twice_in_a_call_is_one_record(self, store: RecordStore) -> None:
        """The same id twice in one call: the last one wins, at the place of the first."""
        batch = [record(ALICE, "a", "one"), record(ALICE, "b", "two"), record(ALICE, "a", "three")]
        stored = store.records.put(ALICE, batch)
        assert [one.content for one in stored] == ["three", "two", "three"]
        assert {one.version for one in stored} == {1}
        newest_first = store.records.list(ALICE, ListQuery(), now=NOW)
        assert [one.content for one in newest_first] == ["two", "three"]

    def test_a_failing_batch_changes_nothing(self, store: RecordStore) -> None:
        """A batch with one record that cannot be stored changes no row, no word and no outbox entry."""
        store.records.put(ALICE, [record(ALICE, "old", "tea")])
        before = [(entry.number, entry.point_id) for entry in due(store)]
        bad = record(ALICE, "bad", metadata={"x": float("nan")})
        batch = [record(ALICE, "new", "coffee"), record(ALICE, "old", "coffee"), bad]
        with pytest.raises((MemkitError, ValueError, TypeError)):
            store.records.put(ALICE, batch)
        assert [one.content for one in store.records.list(ALICE, ListQuery(), now=NOW)] == ["tea"]
        assert found_by_words(store, Target(scope=ALICE), "coffee") == set()
        assert found_by_words(store, Target(scope=ALICE), "tea") == {"old"}
        assert [(entry.number, entry.point_id) for entry in due(store)] == before

    def test_records_of_another_scope_are_refused(self, store: RecordStore) -> None:
        """A record of another scope than the one the call names is refused and nothing is written."""
        with pytest.raises(ScopeError):
            store.records.put(ALICE, [record(ALICE, "a"), record(BOB, "b")])
        for scope in (ALICE, BOB):
            assert len(store.records.list(scope, ListQuery(), now=NOW)) == 0

    def test_get_follows_the_order_of_the_ids(self, store: RecordStore) -> None:
        """`get` returns known records in the order of the ids, without repeats and without the unknown."""
        store.records.put(ALICE, [record(ALICE, i) for i in "abc"])
        found = store.records.get(ALICE, MEMORIES, ["c", "x", "a", "c"], now=NOW)
        assert [one.id for one in found] == ["c", "a"]
        assert store.records.get(ALICE, MEMORIES, [], now=NOW) == []

    def test_more_ids_than_a_statement_binds(self, store: RecordStore) -> None:
        """Two thousand ids in one call are read and deleted like two."""
        names = [f"r{i}" for i in range(2000)]
        store.records.put(ALICE, [record(ALICE, name) for name in names])
        assert [one.id for one in store.records.get(ALICE, MEMORIES, names, now=NOW)] == names
        points = [one.point_id for one in store.records.get(ALICE, MEMORIES, names, now=NOW)]
        assert len(store.records.fetch(Target(scope=ALICE), points)) == 2000
        found = store.records.candidates(Target(scope=ALICE), points, radius=1, where=None, now=NOW)
        assert len(found) == 2000
        assert stored_kinds(store.records.delete(ALICE, MEMORIES, names)) == DeleteReceipt(records=2000)

    def test_spaces_are_part_of_identity(self, store: RecordStore) -> None:
        """The same id in two spaces is two records; reading and deleting one leaves the other."""
        store.records.put(ALICE, [record(ALICE, "x", "memory"), record(ALICE, "x", "note", space="store:n")])
        assert [one.content for one in store.records.get(ALICE, "store:n", ["x"], now=NOW)] == ["note"]
        assert found_by_words(store, Target(scope=ALICE, space="store:n"), "memory") == set()
        store.records.delete(ALICE, "store:n", ["x"])
        assert [one.content for one in store.records.get(ALICE, MEMORIES, ["x"], now=NOW)] == ["memory"]
        assert found_by_words(store, Target(scope=ALICE), "memory") == {"x"}

    @pytest.mark.parametrize("text", INJECTIONS)
    def test_values_are_data(self, store: RecordStore, text: str) -> None:
        """What looks like SQL, a path or a pattern, in any text of a record, names that record alone."""
        own = record(ALICE, text, text + " words", key=text, tags=(text,), source=text, metadata={text: text})
        store.records.put(ALICE, [own, record(ALICE, "other")])
        store.records.put(BOB, [record(BOB, text)])
        assert store.records.get(ALICE, MEMORIES, [text], now=NOW) == [own]
        assert [one.id for one in store.records.list(ALICE, ListQuery(tags=(text,)), now=NOW)] == [text]
        assert store.records.delete(ALICE, MEMORIES, [text]).records == 1
        assert [one.id for one in store.records.list(ALICE, ListQuery(), now=NOW)] == ["other"]
        assert [one.id for one in store.records.list(BOB, ListQuery(), now=NOW)] == [text]

    def test_an_injected_space_is_another_space(self, store: RecordStore) -> None:
        """A space is compared as it is written."""
        store.records.put(ALICE, [record(ALICE, "x")])
        for space in INJECTIONS:
            assert store.records.get(ALICE, space, ["x"], now=NOW) == []
            assert len(store.records.list(ALICE, ListQuery(space=space), now=NOW)) == 0
            assert store.records.delete(ALICE, space, ["x"]).nothing
        assert len(store.records.list(ALICE, ListQuery(), now=NOW)) == 1

    def test_delete_counts_what_it_removed(self, store: RecordStore) -> None:
        """A delete says how many records and vectors went, and 0 the second time."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
        embed_all(store)
        store.records.put(ALICE, [record(ALICE, "c")])
        receipt = store.records.delete(ALICE, MEMORIES, ["a", "c", "a", "unknown"])
        assert stored_kinds(receipt) == DeleteReceipt(records=2, vectors=1)
        assert store.records.delete(ALICE, MEMORIES, ["a", "c"]).nothing
        assert [one.id for one in store.records.list(ALICE, ListQuery(), now=NOW)] == ["b"]

    def test_delete_scope_cascades(self, store: RecordStore) -> None:
        """Deleting a user removes all spaces, sessions, messages, turns and vectors, and counts each."""
        self._fill(store)
        receipt = store.records.delete_scope(ALICE)
        assert stored_kinds(receipt) == DeleteReceipt(records=3, turns=2, messages=3, sessions=1, vectors=5)
        assert store.log.read(TALK) == []
        assert store.log.session(TALK) is None
        assert store.log.sessions(ALICE) == []
        for target in (Target(scope=ALICE), Target(scope=TALK), turns(ALICE), turns(TALK)):
            assert found_by_words(store, target) == set()
            assert store.vectors.scan(target, where=None, now=NOW)[0] == []
        assert store.records.delete_scope(ALICE).nothing

    def test_a_delete_counts_what_was_derived(self, store: RecordStore) -> None:
        """The receipt counts keyword rows, vectors of turns, and what the vector index was not told yet."""
        store.records.put(
            ALICE, [record(ALICE, "a", "an owl and one more owl"), record(ALICE, "b", "a crow")]
        )
        append(store, TALK, [message("m", "an owl called Pip")])
        embed_all(store)
        confirm_all(store)
        store.records.put(ALICE, [record(ALICE, "b", "a black crow"), record(ALICE, "c", "rooks")])
        words = {
            one: len(set(keyword_terms(one))) for one in ("an owl and one more owl", "a black crow", "rooks")
        }
        turn = len(set(keyword_terms("an owl called Pip")))
        assert min(words.values()) == 1 < turn
        one = store.records.delete(ALICE, MEMORIES, ["b", "unknown"])
        assert (one.keywords, one.turn_vectors, one.outbox) == (words["a black crow"], 0, 1)
        rest = store.records.delete_scope(ALICE)
        assert (rest.keywords, rest.turn_vectors, rest.outbox) == (
            words["an owl and one more owl"] + words["rooks"] + turn,
            1,
            1,
        )
        assert (rest.records, rest.turns, rest.vectors) == (2, 1, 2)
        # Of all four points the index is told that they are gone.
        assert [entry.record for entry in due(store)] == [None] * 4
        assert store.records.delete_scope(ALICE) == DeleteReceipt()

    def test_a_part_of_what_is_searched_together_goes_alone(self, store: RecordStore) -> None:
        """Of rows that share keyword statistics some or all may be deleted; those that stay are found as before."""
        other = Scope.session("s2", user=ALICE)
        for session in (TALK, other):
            append(store, session, [message(f"{session.path[-1][1]}{n}") for n in range(3)])
        store.records.put(ALICE, [record(ALICE, name) for name in "abc"])
        store.records.delete(ALICE, MEMORIES, ["a", "b"])
        store.records.delete_scope(TALK)
        assert store.verify() == []
        assert found_by_words(store, Target(scope=ALICE)) == {"c"}
        assert found_by_words(store, turns(ALICE)) == {"s20", "s21", "s22"}
        assert store.records.delete(ALICE, MEMORIES, ["c"]).keywords > 0
        assert store.records.delete_scope(other).keywords > 0
        assert store.verify() == []
        store.records.put(ALICE, [record(ALICE, "d")])
        append(store, TALK, [message("new")])
        assert found_by_words(store, Target(scope=ALICE)) == {"d"}
        assert found_by_words(store, turns(ALICE)) == {"new"}
        assert store.verify() == []

    def test_delete_scope_leaves_every_other_scope(self, store: RecordStore) -> None:
        """Deleting a user leaves other users, and workspaces, orgs and objects above and under it."""
        others = [BOB, Scope.object("ticket", within=ALICE), Scope.org("alice"), Scope.workspace("alice")]
        for scope in [ALICE, *others]:
            store.records.put(scope, [record(scope, "x")])
        append(store, Scope.session("s1", user="bob"), [message("m")])
        assert stored_kinds(store.records.delete_scope(ALICE)) == DeleteReceipt(records=1)
        for scope in others:
            assert found_by_words(store, Target(scope=scope)) == {"x"}, scope
        assert len(store.log.read(Scope.session("s1", user="bob"))) == 1

    def test_delete_of_a_session_scope_leaves_its_user(self, store: RecordStore) -> None:
        """Deleting a session removes its memories and its log; the user's own memories stay."""
        self._fill(store)
        receipt = store.records.delete_scope(TALK)
        assert stored_kinds(receipt) == DeleteReceipt(records=1, turns=2, messages=3, sessions=1, vectors=3)
        assert found_by_words(store, Target(scope=ALICE)) == {"a"}

    def test_after_deleting_everything_the_store_is_as_new(self, store: RecordStore) -> None:
        """After `delete_everything` nothing is left, and what is added then is all there is."""
        self._fill(store)
        store.records.put(BOB, [record(BOB, "b")])
        receipt = store.records.delete_everything()
        assert stored_kinds(receipt) == DeleteReceipt(records=4, turns=2, messages=3, sessions=1, vectors=5)
        assert store.vectors.page(after=0, limit=10) == []
        assert store.vectors.counts() == (0, 0)
        for scope in (ALICE, BOB, TALK):
            assert len(store.records.list(scope, ListQuery(), now=NOW)) == 0
        store.records.put(ALICE, [record(ALICE, "a", "fresh words")])
        (stored,) = store.records.list(ALICE, ListQuery(), now=NOW)
        assert (stored.content, stored.version) == ("fresh words", 1)
        assert found_by_words(store, Target(scope=ALICE)) == {"a"}
        assert append(store, TALK, [message("m")])[0].position == 0

    def _fill(self, store: RecordStore) -> None:
        """Five rows with vectors: a memory, a note, a memory of a session, and two turns of it."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "n", space="store:n")])
        store.records.put(TALK, [record(TALK, "t")])
        append(store, TALK, [message("1"), message("2", role=Role.ASSISTANT), message("3", role=Role.SYSTEM)])
        assert {one.record.space for one in due(store) if one.record} == {MEMORIES, "store:n", MESSAGES}
        embed_all(store)


def _typed(value: object) -> object:
    """A value with the type of every part, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return type(value), value
