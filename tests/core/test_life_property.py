"""Any sequence of changes, on both stores, beside a plain model of what should be there."""

import copy
import tempfile
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from memkit_core import Config, Scope
from memkit_core.errors import CompactionError, ConflictError, RecordNotFoundError
from memkit_core.inputs import NewMemory, build_record
from memkit_core.life import Life
from memkit_core.models import MEMORIES, ChangeKind, RecordPatch, RecordType, Status
from memkit_core.ports import ListQuery
from memkit_core.stores.memory import InMemoryStore
from memkit_core.stores.sqlite import SQLiteStore
from memkit_core.testing.samples import NOW

USER, ORG = Scope.user("alice"), Scope.org("o")
ALL = ListQuery(statuses=tuple(Status), limit=9999)
FAILED = (ConflictError, RecordNotFoundError, CompactionError)

contents = st.sampled_from("abcd")
keys = st.sampled_from([None, "k", "l"])
types = st.sampled_from([RecordType.FACT, RecordType.PREFERENCE])
scopes = st.sampled_from([USER, USER, ORG])


@dataclass(frozen=True)
class Plain:
    """What the model knows of a memory."""

    scope: Scope
    content: str
    type: RecordType = RecordType.FACT
    key: str | None = None
    status: Status = Status.ACTIVE
    supersedes: str | None = None
    superseded_by: str | None = None
    mentions: int = 1

    @property
    def slot(self):
        return (self.scope, self.type, self.key) if self.key and self.status is Status.ACTIVE else None


class Model:
    """Memories by id in the order of their making, and the steps that changed them, each whole."""

    def __init__(self):
        self.records, self.steps = {}, []

    def step(self, **changed):
        """Change several memories at once; refused when two would hold for one key."""
        after = self.records | changed
        slots = [one.slot for one in after.values() if one.slot]
        if len(slots) != len(set(slots)):
            raise ConflictError
        self.steps.append({name: self.records.get(name) for name in changed})
        self.records = after

    def holder(self, new, name):
        return next(
            (i for i, one in self.records.items() if i != name and one.slot and one.slot == new.slot), None
        )

    def put(self, name, new, **others):
        """Write a memory, in the place of what holds for its key."""
        old = self.holder(new, name)
        if old is not None:
            gone = replace(self.records[old], status=Status.SUPERSEDED, superseded_by=name)
            new, others = replace(new, supersedes=old), others | {old: gone}
        self.step(**others, **{name: new})

    def twin(self, new):
        said = (new.scope, new.type, new.key, new.content)
        return next(
            (
                i for i, one in self.records.items()
                if one.status is Status.ACTIVE and (one.scope, one.type, one.key, one.content) == said
            ),
            None,
        )  # fmt: skip

    def say(self, name, new):
        """As `put`, unless it says what another one says; returns the id it is stored under."""
        twin = self.twin(new)
        if twin is None:
            self.put(name, new)
            return name
        self.step(**{twin: replace(self.records[twin], mentions=self.records[twin].mentions + 1)})
        return twin

    def last(self, name):
        return max((n for n, step in enumerate(self.steps) if name in step), default=None)

    def clean(self, name):
        """Whether nothing that changed with the memory was changed or deleted since."""
        last = self.last(name)
        return last is not None and all(
            other in self.records and self.last(other) == last for other in self.steps[last]
        )

    def undo(self, name):
        before = self.steps[self.last(name)]
        gone = before[name] and before[name].superseded_by
        if gone and gone != self.records[name].superseded_by and gone not in self.records:
            # What came after it was deleted.
            raise ConflictError
        made = {
            i: replace(self.records[i], status=Status.ARCHIVED) for i, one in before.items() if one is None
        }
        self.step(**(before | made))


class LifeMachine(RuleBasedStateMachine):
    """Every rule does the same to the model and to the store, or is refused by both."""

    ids = Bundle("ids")

    def opened(self):
        raise NotImplementedError

    @initialize()
    def open(self):
        self.folder = tempfile.TemporaryDirectory()
        self.now = NOW
        self.store = self.opened()
        self.life = Life(self.store, Config(), lambda: self.now)
        self.model = Model()
        self.told = {}
        """The versions whose history was looked at."""

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    def agree(self, done, expected):
        """Do both, later than all before; returns what the store returned, None when both refused."""
        self.now += timedelta(milliseconds=5)
        kept = copy.copy(self.model)
        try:
            made = done()
        except FAILED as error:
            made, refused = None, error
            try:
                expected(None)
            except FAILED as wanted:
                assert type(refused) is type(wanted) or issubclass(type(refused), type(wanted))  # noqa: PT017
                self.model = kept
                return None
            raise AssertionError(f"refused: {refused}") from refused
        expected(made)
        return made

    def found(self, name, *statuses):
        """What the model has of a memory in the user's scope, if it may be taken."""
        one = self.model.records.get(name)
        if one is None or one.scope != USER:
            raise RecordNotFoundError
        if statuses and one.status not in statuses:
            raise ConflictError
        return one

    def built(self, scope, content, kind, key, *, pending=False, name=None):
        new = NewMemory(content=content, type=kind, key=key, pending=pending, id=name)
        return build_record(new, scope=scope, now=self.now, agent_id=None, max_chars=99)

    @rule(
        target=ids, scope=scopes, content=contents, kind=types, key=keys,
        pending=st.sampled_from([False, False, True]), chosen=st.booleans(),
    )  # fmt: skip
    def add(self, scope, content, kind, key, pending, chosen):
        self.now += timedelta(milliseconds=5)
        record = self.built(scope, content, kind, key, pending=pending)
        (stored,) = self.store.records.put(scope, [record], merge=() if chosen else {record.id})
        status = Status.PENDING if pending else Status.ACTIVE
        new = Plain(scope=scope, content=content, type=kind, key=key, status=status)
        self.model.put(record.id, new) if chosen else self.model.say(record.id, new)
        return stored.id

    @rule(name=ids, content=contents, key=keys)
    def replace_by_id(self, name, content, key):
        old = self.model.records.get(name)
        if old is None or old.scope != USER:
            return
        self.now += timedelta(milliseconds=5)
        record = self.built(USER, content, old.type, key, name=name)
        self.store.records.put(USER, [record])
        self.model.put(name, Plain(scope=USER, content=content, type=old.type, key=key))

    @rule(name=ids, content=contents, kind=types)
    def update(self, name, content, kind):
        def expected(_):
            old = self.found(name)
            if (old.content, old.type) != (content, kind):
                self.model.step(**{name: replace(old, content=content, type=kind)})

        patch = RecordPatch(content=content, type=kind)
        self.agree(lambda: self.store.records.change(USER, MEMORIES, name, patch, now=self.now), expected)

    @rule(name=ids, move=st.sampled_from([
        (ChangeKind.ARCHIVED, (Status.ACTIVE,), Status.ARCHIVED),
        (ChangeKind.RESTORED, (Status.ARCHIVED, Status.SUPERSEDED), Status.ACTIVE),
        (ChangeKind.CONFIRMED, (Status.PENDING,), Status.ACTIVE),
        (ChangeKind.REJECTED, (Status.PENDING,), Status.ARCHIVED),
    ]))  # fmt: skip
    def move(self, name, move):
        kind, sources, status = move

        def expected(_):
            old = self.found(name, *sources, status)
            if old.status is status:
                return
            new = replace(old, status=status)
            if kind is ChangeKind.CONFIRMED:
                self.model.put(name, new)
            elif kind is ChangeKind.RESTORED:
                self.model.step(**{name: replace(new, superseded_by=None)})
            else:
                self.model.step(**{name: new})

        self.agree(lambda: self.life.move(name, USER, kind), expected)

    @rule(target=ids, name=ids, content=contents)
    def supersede(self, name, content):
        def expected(made):
            old = self.found(name, Status.ACTIVE)
            new = made[0]
            gone = replace(old, status=Status.SUPERSEDED, superseded_by=new.id)
            plain = Plain(scope=USER, content=content, type=old.type, key=old.key, supersedes=name)
            self.model.step(**{name: gone, new.id: plain})

        new = NewMemory(content=content)
        made = self.agree(lambda: self.life.supersede(name, USER, new, expected_version=None), expected)
        return name if made is None else made[0].id

    @rule(target=ids, name=ids, move=st.booleans())
    def promote(self, name, move):
        def expected(made):
            old = self.found(name, Status.ACTIVE)
            new = replace(old, scope=ORG, supersedes=None)
            twin = self.model.twin(new)
            assert made[0].id == twin or made[0].promoted_from_id == name
            self.model.say(made[0].id, new)
            if move:
                del self.model.records[name]

        made = self.agree(lambda: self.life.promote(name, USER, ORG, move=move), expected)
        return name if made is None else made[0].id

    @rule(target=ids, names=st.lists(ids, min_size=1, max_size=3, unique=True))
    def compact(self, names):
        def expected(made):
            try:
                sources = {name: self.found(name, Status.ACTIVE) for name in names}
            except FAILED:
                raise CompactionError from None
            summary = Plain(scope=USER, content="sum", type=RecordType.SUMMARY)
            gone = {
                name: replace(one, status=Status.SUPERSEDED, superseded_by=made[0].id)
                for name, one in sources.items()
            }
            self.model.step(**gone, **{made[0].id: summary})

        made = self.agree(
            lambda: self.life.compact(names, USER, lambda _: "sum", tags=(), into=None), expected
        )
        return names[0] if made is None else made[0].id

    @rule(name=ids)
    def undo(self, name):
        one = self.model.records.get(name)
        clean = one is not None and self.model.clean(name)
        if one is None or one.scope != USER or clean:

            def expected(_):
                self.found(name)
                self.model.undo(name)

            self.agree(lambda: self.life.undo(name, USER), expected)
            return
        # What changed together was changed apart since: it may be refused, and what holds is told anew.
        self.now += timedelta(milliseconds=5)
        try:
            changed = self.life.undo(name, USER)
        except ConflictError:
            return
        assert changed[0].id == name
        self.model.step(**{one.id: self.seen(one) for one in changed})
        # Neither is it known whether this step can be taken back.
        self.model.steps[-1][None] = None

    @rule(name=consumes(ids))
    def delete(self, name):
        self.store.records.delete(USER, MEMORIES, [name])
        if name in self.model.records and self.model.records[name].scope == USER:
            del self.model.records[name]

    def seen(self, record):
        return Plain(
            scope=record.scope,
            content=record.content,
            type=record.type,
            key=record.key,
            status=record.status,
            supersedes=record.supersedes,
            superseded_by=record.superseded_by,
            mentions=record.mentions,
        )

    @invariant()
    def the_store_is_as_the_model(self):
        if not hasattr(self, "store"):
            return
        stored = [
            *self.store.records.list(USER, ALL, now=self.now),
            *self.store.records.list(ORG, ALL, now=self.now),
        ]
        assert {one.id: self.seen(one) for one in stored} == self.model.records
        slots = [self.seen(one).slot for one in stored if self.seen(one).slot]
        assert len(slots) == len(set(slots))
        shown = {
            one.id
            for scope in (USER, ORG)
            for one in self.store.records.list(scope, ListQuery(limit=9999), now=self.now).records
        }
        for one in stored:
            assert (one.status is Status.SUPERSEDED) is (one.superseded_by is not None)
            assert (one.status is Status.SUPERSEDED) is (one.valid_until is not None)
            assert (one.id in shown) is (one.status is Status.ACTIVE)
            if self.told.get(one.id) != one.version:
                history = self.store.records.history(one.scope, one.id, now=self.now)
                assert [change.version for change in history] == list(range(1, one.version + 1))
                self.told[one.id] = one.version


class OnSQLite(LifeMachine):
    def opened(self):
        return SQLiteStore(Path(self.folder.name) / "memory.db")


class OnMemory(LifeMachine):
    def opened(self):
        return InMemoryStore()


TestOnSQLite, TestOnMemory = OnSQLite.TestCase, OnMemory.TestCase
# Deletes empty the bundle of ids, and many rules wait for the next one.
_QUIETLY = settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
TestOnSQLite.settings = settings(_QUIETLY, max_examples=30, stateful_step_count=30)
TestOnMemory.settings = settings(_QUIETLY, max_examples=60, stateful_step_count=30)
