"""`SQLiteStore` beside `InMemoryStore`: whatever is done to both, both give the same answers."""

import dataclasses
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memkit_core.errors import ConflictError, RecordNotFoundError
from memkit_core.inputs import build_turn
from memkit_core.models import MEMORIES, MESSAGES, Message, RecordPatch, RecordType, Role, Status, Target
from memkit_core.ports import Access, ListQuery
from memkit_core.scope import Scope
from memkit_core.stores.memory import InMemoryStore
from memkit_core.stores.sqlite import SQLiteStore
from memkit_core.testing.samples import NOW, SPACE, later, record, vectors_for
from memkit_core.testing.strategies import filters, metadata

ALICE = Scope.user("alice")
SESSIONS = (
    Scope.session("s1", user="alice"),
    Scope.session("s2", user="alice"),
    Scope.session("s1", user="bob"),
)
SCOPES = (ALICE, Scope.user("bob"), Scope.object("alice", within=ALICE), *SESSIONS[:2])
SPACES = (MEMORIES, "store:x", MESSAGES)
TARGETS = [Target(scope=scope, space=space) for scope in (*SCOPES, SESSIONS[2]) for space in SPACES]
WORDS = ("tea", "green tea", "coffee with milk", "丹佛 tea", "milk milk milk", "Denver")
EVERYTHING = ListQuery(statuses=tuple(Status), limit=999)
END = datetime(2099, 1, 1, tzinfo=UTC)

names = st.sampled_from(["a", "b", "c", "d"])
messages = st.builds(
    Message,
    id=names,
    role=st.sampled_from(Role),
    text=st.sampled_from(("", *WORDS)),
    speaker=st.sampled_from([None, "Bo", "user"]),
    created_at=st.sampled_from([None, NOW, later(days=-1)]),
    metadata=st.sampled_from([{}, {"a": 1}]),
    indexed=st.sampled_from([None, None, False]),
)


@st.composite
def drafts(draw):
    """What varies of a record between two writes of it."""
    return {
        "record_id": draw(names),
        "content": draw(st.sampled_from(WORDS)),
        "importance": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "status": draw(st.sampled_from([Status.ACTIVE, Status.ACTIVE, Status.ARCHIVED])),
        "tags": tuple(draw(st.lists(st.sampled_from(["x", "y"]), unique=True))),
        "expires_at": draw(st.sampled_from([None, None, later(hours=3)])),
        "pinned": draw(st.booleans()),
        "metadata": draw(metadata()),
        "key": draw(st.sampled_from([None, None, "k"])),
        "valid_from": draw(st.sampled_from([None, None, later(hours=1)])),
    }


@st.composite
def patches(draw):
    """A patch that gives some of the fields."""
    given = {
        "content": st.sampled_from(WORDS),
        "type": st.sampled_from([RecordType.FACT, RecordType.EVENT]),
        "importance": st.sampled_from([0.0, 1.0]),
        "tags": st.sampled_from([(), ("x",), ("y", "x")]),
        "metadata": metadata(),
        "expires_at": st.sampled_from([None, later(hours=3)]),
        "pinned": st.booleans(),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(given)), max_size=3))
    return RecordPatch(**{name: draw(given[name]) for name in sorted(chosen)})


class StoresAgree(RuleBasedStateMachine):
    """Every rule does the same to both stores and compares what they return."""

    @initialize()
    def open(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "memory.db"
        self.sqlite, self.model = SQLiteStore(self.path), InMemoryStore()
        self.now, self.made = NOW, 0

    def teardown(self):
        if hasattr(self, "folder"):
            self.sqlite.close()
            self.model.close()
            self.folder.cleanup()

    def both(self, call):
        left, right = call(self.sqlite), call(self.model)
        assert left == right
        return left

    @rule(hours=st.sampled_from([-2, 1, 4]))
    def the_clock_moves(self, hours):
        self.now += later(hours=hours) - NOW

    @rule(
        scope=st.sampled_from(SCOPES), space=st.sampled_from(SPACES[:2]), batch=st.lists(drafts(), max_size=3)
    )
    def put(self, scope, space, batch):
        written = [
            record(scope, space=space, created_at=self.now, updated_at=self.now, **draft) for draft in batch
        ]
        self.both(lambda store: store.records.put(scope, written))

    @rule(
        scope=st.sampled_from(SCOPES),
        space=st.sampled_from(SPACES[:2]),
        batch=st.lists(drafts(), min_size=1, max_size=3),
        chosen=st.booleans(),
    )
    def say(self, scope, space, batch, chosen):
        written = [
            record(scope, space=space, created_at=self.now, updated_at=self.now, **draft) for draft in batch
        ]
        # The first may come with an id; an id that nobody chose is one that no record has.
        written = [
            one if chosen and i == 0 else dataclasses.replace(one, id=f"new{self.made + i}")
            for i, one in enumerate(written)
        ]
        self.made += len(written)
        merge = {one.id for one in written} - set("abcd")
        self.both(lambda store: store.records.put(scope, written, merge=merge))

    @rule(
        scope=st.sampled_from(SCOPES),
        space=st.sampled_from(SPACES),
        name=names,
        patch=patches(),
        expected=st.sampled_from([None, None, 1, 2]),
    )
    def change(self, scope, space, name, patch, expected):
        def changed(store):
            try:
                return store.records.change(
                    scope, space, name, patch, expected_version=expected, now=self.now
                )
            except (RecordNotFoundError, ConflictError) as error:
                return str(error)

        self.both(changed)

    @rule(limit=st.sampled_from([1, 99]))
    def sweep(self, limit):
        self.both(lambda store: store.records.sweep(now=self.now, limit=limit))

    @rule(scope=st.sampled_from(SCOPES), space=st.sampled_from(SPACES), touched=st.lists(names, max_size=3))
    def touch(self, scope, space, touched):
        points = [record(scope, name, space=space).point_id for name in touched]
        self.both(lambda store: store.records.touch({point: Access(2, self.now) for point in points}))

    @rule(scope=st.sampled_from(SCOPES), space=st.sampled_from(SPACES), ids=st.lists(names, max_size=3))
    def delete(self, scope, space, ids):
        self.both(lambda store: store.records.delete(scope, space, ids))

    @rule(scope=st.sampled_from(SCOPES))
    def delete_scope(self, scope):
        self.both(lambda store: store.records.delete_scope(scope))

    @rule(
        session=st.sampled_from(SESSIONS),
        batch=st.lists(messages, max_size=4),
        keep=st.none() | st.none() | st.lists(names, max_size=3),
    )
    def append(self, session, batch, keep):
        newest = {one.id: one for one in batch}.values()
        turns = [build_turn(one, session=session, now=self.now) for one in newest if one.is_turn]
        self.both(lambda store: store.log.append(session, batch, turns, now=self.now, keep=keep))

    @rule(session=st.sampled_from(SESSIONS), ids=st.lists(names, max_size=3))
    def delete_messages(self, session, ids):
        self.both(lambda store: store.log.delete(session, ids))

    @rule(session=st.sampled_from(SESSIONS))
    def clear(self, session):
        self.both(lambda store: store.log.clear(session))

    @rule(zero=st.booleans())
    def embed(self, zero):
        for store in (self.sqlite, self.model):
            store.vectors.use_space(SPACE)
            entries = self.entries(store)
            vectors = vectors_for(entries) * (0 if zero and len(entries) == 1 else 1)
            kept = store.vectors.save(entries, vectors.astype(np.float32))
            assert kept == [entry.record is not None for entry in entries]

    @rule(few=st.integers(0, 5))
    def confirm(self, few):
        points = [entry.point_id for entry in self.entries(self.model)][:few]
        for store in (self.sqlite, self.model):
            store.outbox.mark_synced([one.number for one in self.entries(store) if one.point_id in points])

    @rule(few=st.integers(0, 5), hours=st.sampled_from([-1, 2]))
    def fail(self, few, hours):
        points = [entry.point_id for entry in self.entries(self.model)][:few]
        retry_at = self.now + (later(hours=hours) - NOW)
        for store in (self.sqlite, self.model):
            numbers = [one.number for one in self.entries(store) if one.point_id in points]
            store.outbox.mark_failed(numbers, "down", retry_at=retry_at)

    @rule()
    def retry(self):
        self.both(lambda store: store.outbox.retry())

    @rule()
    def reopen(self):
        self.sqlite.close()
        self.sqlite = SQLiteStore(self.path)

    @rule(
        where=st.none() | filters(),
        asked=st.sampled_from(TARGETS),
        order=st.sampled_from(["created_at", "importance"]),
    )
    def listings_agree(self, where, asked, order):
        cursors = {self.sqlite: None, self.model: None}
        for _ in range(3):
            pages = []
            for store, cursor in cursors.items():
                query = ListQuery(
                    space=asked.space,
                    statuses=tuple(Status),
                    where=where,
                    order=order,
                    limit=2,
                    cursor=cursor,
                )
                page = store.records.list(asked.scope, query, now=self.now)
                cursors[store] = page.cursor
                pages.append(page.records)
            assert pages[0] == pages[1]
            assert (cursors[self.sqlite] is None) is (cursors[self.model] is None)
            if cursors[self.model] is None:
                break

    @rule(
        where=st.none() | filters(max_leaves=3),
        asked=st.sampled_from(TARGETS),
        query=st.sampled_from(WORDS),
        radius=st.integers(0, 2),
    )
    def recall_reads_agree(self, where, asked, query, radius):
        scores, seen = [], []
        for store in (self.sqlite, self.model):
            hits = store.keywords.search(asked, query, where=where, now=self.now, limit=100)
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            scores.append({hit.point_id: hit.score for hit in hits})
            brought = {hit.candidate for hit in hits}
            points = sorted(hit.point_id for hit in hits)[::2]
            found = store.records.candidates(asked, points, radius=radius, where=where, now=self.now)
            assert {one for one in found if one.point_id in points} == {
                one for one in brought if one.point_id in points
            }
            counts = store.keywords.counts(asked, query, found)
            seen.append(
                {
                    # Rows and sessions have numbers of their own in each store.
                    one.point_id: (one._replace(row=0, session=min(one.session, 0)), row.tolist())
                    for one, row in zip(found, counts, strict=True)
                }
            )
        assert scores[0] == pytest.approx(scores[1], abs=1e-9)
        assert seen[0] == seen[1]

    @rule(where=st.none() | filters(max_leaves=3), asked=st.sampled_from(TARGETS))
    def scans_agree(self, where, asked):
        found = []
        for store in (self.sqlite, self.model):
            points, vectors = store.vectors.scan(asked, where=where, now=self.now)
            found.append({p: v.tolist() for p, v in zip(points, vectors, strict=True)})
        assert found[0] == found[1]

    @invariant()
    def reads_agree(self):
        if not hasattr(self, "model"):
            return
        for scope in SCOPES:
            for space in SPACES:
                self.both(lambda store, s=scope, p=space: store.records.get(s, p, list("abcd"), now=self.now))
            self.both(lambda store, s=scope: store.records.list(s, EVERYTHING, now=self.now))
            for name in "abcd":
                self.both(lambda store, s=scope, n=name: store.records.history(s, n, now=self.now))
        for session in SESSIONS:
            self.both(lambda store, s=session: store.log.read(s))
            self.both(lambda store, s=session: store.log.read(s, last=2, before=3))
            self.both(lambda store, s=session: store.log.system_messages(s))
            self.both(lambda store, s=session: store.log.session(s))
        for scope in SCOPES:
            found = [
                {one.scope: one for one in store.log.sessions(scope)} for store in (self.sqlite, self.model)
            ]
            assert found[0] == found[1]

    @invariant()
    def outboxes_agree(self):
        if not hasattr(self, "model"):
            return
        self.both(lambda store: store.vectors.counts())
        self.both(lambda store: store.vectors.space())
        self.both(
            lambda store: [(one.point_id, v.tolist()) for _, one, v in store.vectors.page(after=0, limit=99)]
        )
        for moment in (self.now, END):
            self.both(lambda store, m=moment: self.waiting(store, m))
        for target in TARGETS:
            self.both(
                lambda store, t=target: {(one.point_id, one.embedded) for one in store.outbox.pending(t)}
            )
        states = [store.outbox.state(max_attempts=2) for store in (self.sqlite, self.model)]
        told = [(state.length, state.failed, state.oldest is None, state.last_error) for state in states]
        assert told[0] == told[1]

    def entries(self, store):
        """All entries, in an order that both stores share: several deletes at once have none."""
        return sorted(store.outbox.due(now=END, limit=999), key=lambda entry: entry.point_id)

    def waiting(self, store, moment):
        entries = store.outbox.due(now=moment, limit=999)
        return {
            one.point_id: (one.attempts, one.record, None if one.vector is None else one.vector.tolist())
            for one in entries
        }


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
