"""`memory.items`: values by namespace and key, in a space of their own."""

import contextlib
import io
import itertools
import json
import sqlite3
import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from memkit_core import (
    AsyncMemory,
    Config,
    ConfigError,
    InvalidInputError,
    Item,
    Memory,
    NewItem,
    Scope,
    ScopeError,
    value_key,
)
from memkit_core.models import Target
from memkit_core.testing.samples import INJECTIONS, NOW

ALICE, BOB = Scope.user("alice"), Scope.user("bob")


class Axes:
    """Embeds by the first letter: exact angles between texts; counts what it embeds."""

    model = "axes"

    def __init__(self):
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return np.array([self._of(text) for text in texts], np.float32)

    def embed_query(self, text):
        return np.array(self._of(text), np.float32)

    def _of(self, text):
        return {"a": [1, 0], "b": [0, 1], "c": [0.5, 3**0.5 / 2], "z": [-1, 0]}.get(text[:1], [0, 0])


class Clock:
    """A clock that stands still until it is moved."""

    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture(scope="module", params=["memory", "file"])
def shared(request, tmp_path_factory):
    """One store of each kind for all tests, each of which begins with it empty: to make a file takes long."""
    path = ":memory:" if request.param == "memory" else tmp_path_factory.mktemp("items") / "m.db"
    clock, axes = Clock(), Axes()
    with Memory.open(path, clock=clock, embedder=axes) as memory:
        yield memory, clock, axes


@pytest.fixture
def opened(shared):
    memory, clock, axes = shared
    memory.delete(everything=True)
    clock.now = NOW
    axes.texts.clear()
    return memory


@pytest.fixture
def clock(shared):
    return shared[1]


@pytest.fixture
def axes(shared):
    return shared[2]


@pytest.fixture
def items(opened):
    return opened.items(scope=ALICE)


def new(key="k", *texts, namespace=("n",), value=None, **settings):
    return NewItem(namespace=namespace, key=key, value=value or {"key": key}, texts=texts, **settings)


def keys(found):
    return [one.key for one in found]


def test_put_get_delete(items, clock):
    """A value comes back under its name with its times; None without one; deleting is idempotent."""
    (stored,) = items.put([new(value={"a": [1]})])
    assert (
        stored
        == items.get(("n",), "k")
        == Item(namespace=("n",), key="k", value={"a": [1]}, created_at=clock.now, updated_at=clock.now)
    )
    assert items.get(("n", "k"), "k") is None
    assert items.delete(("n",), "k").records == 1
    assert items.delete(("n",), "k").nothing
    assert items.get(("n",), "k") is None


def test_one_call_is_one_transaction(items):
    """Puts and deletes happen together or not at all; of one name twice the last counts, at both places."""
    items.put([new("old", "a", "b"), new("gone", "a", "b")])
    with pytest.raises(InvalidInputError):
        items.put([new("new"), new("bad", value={"x": {1}})], delete=[(("n",), "gone")])
    assert {*keys(items.search())} == {"old", "gone"}
    stored = items.put(
        [new("new", "a", "b"), new("new", value={"last": 1}), new("old")],
        delete=[(("n",), "gone"), (("n",), "old"), (("none",), "x")],
    )
    assert [one.value for one in stored] == [{"last": 1}, {"last": 1}, {"key": "old"}]
    assert {*keys(items.search())} == {"new", "old"}
    assert items.put([]) == []


def test_a_batch_has_an_end(tmp_path):
    """More items and texts than `Config.max_batch` in one call are refused."""
    with Memory.open(tmp_path / "m.db", config=Config(max_batch=3)) as memory:
        items = memory.items(scope=ALICE)
        with pytest.raises(InvalidInputError, match="at most 3"):
            items.put([new("one", "a", "b"), new("two", "a", "b")])
        assert len(items.put([new("one", "a", "b"), new("two", "a", "a", " ")])) == 2


def test_a_value_is_found_by_each_of_its_texts(items):
    """The score is the similarity of the nearest; items without texts stand behind, without a score."""
    items.put([new("two", "b", "a"), new("one", "c"), new("none"), new("blank", " ")])
    assert [(one.key, one.score) for one in items.search(query="a")] == [
        ("two", pytest.approx(1)), ("one", pytest.approx(0.75)), ("blank", None), ("none", None),
    ]  # fmt: skip
    assert keys(items.search(query="b", limit=1, offset=1)) == ["one"]
    assert keys(items.search(("n",), query="a", mode="keyword"))[0] == "two"


def test_many_texts_do_not_crowd_out_others(items):
    """One item with many near texts leaves room for the next ones."""
    items.put([new("many", *(f"a {n}" for n in range(50))), new("c", "c"), new("b", "b")])
    assert keys(items.search(query="a", limit=3)) == ["many", "c", "b"]
    assert keys(items.search(query="a", limit=1, offset=2)) == ["b"]
    assert len(items.search(query="a", limit=5000)) == 3


@pytest.mark.parametrize("mode", ["dense", "hybrid", "keyword"])
def test_pages_of_equals_are_of_one_order(items, mode):
    """Page by page, each item is there once, also when many are equally near."""
    items.put([new(f"k{n}", "a", *("b a" for _ in range(n % 3))) for n in range(40)])
    pages = [keys(items.search(query="a", limit=7, offset=start, mode=mode)) for start in range(0, 42, 7)]
    assert list(itertools.chain(*pages)) == keys(items.search(query="a", limit=100, mode=mode))
    assert len({*itertools.chain(*pages)}) == 40


def test_only_what_changed_is_embedded_again(items, axes):
    """A new value with the same texts keeps their vectors."""
    # Texts that no other test has embedded.
    items.put([new("k", "a once", "b once")])
    assert axes.texts == ["a once", "b once"]
    items.put([new("k", "a once", "c once", value={"n": 2})])
    assert axes.texts == ["a once", "b once", "c once"]


def test_filters_look_into_the_value(items):
    """`value_key` names what stands in a value; with a query the filter holds as well (C9)."""
    items.put(
        [
            new("one", "a", "b", value={"n": 1, "a.b": {"c": "x"}}),
            new("two", "a", value={"n": 2}),
            new("three", value={"n": 3}),
        ]
    )
    assert {*keys(items.search(filters={value_key("n"): {"gte": 2}}))} == {"two", "three"}
    assert keys(items.search(query="b", filters={value_key("n"): {"lt": 3}})) == ["one", "two"]
    assert keys(items.search(filters={value_key("a.b", "c"): "x"})) == ["one"]
    assert keys(items.search(query="a", matching=lambda value: value["n"] != 2)) == ["one", "three"]
    assert keys(items.search(("n",), filters={value_key("n"): 1}, matching=lambda value: "a.b" in value)) == [
        "one"
    ]
    for call in ({"filters": {"n": 1}}, {"matching": "n"}, {"matching": bool}, {"limit": -1}, {"mode": "x"}):
        with pytest.raises(InvalidInputError):
            items.search(**call)


@pytest.mark.parametrize(
    "name", [*INJECTIONS, '","', "]", "['a']", "a.b", "ann@lund.example", "*", "%", "🦉", "\n"]
)
def test_any_text_is_a_label_or_a_key(items, name):
    """Names are data, each of its own."""
    names = [((name,), "k"), ((name, name), "k"), (("x",), name), ((name + "x",), "k"), (("x", name), name)]
    items.put([new(key, "a", "b", namespace=namespace) for namespace, key in names])
    assert all(items.get(*one).key == one[1] for one in names)
    assert items.namespaces((name,)) == [(name,), (name, name)]
    assert items.namespaces() == sorted({namespace for namespace, _ in names})
    assert {one.namespace for one in items.search((name,), query="a")} == {(name,), (name, name)}
    items.delete((name,), "k")
    assert len(items.search()) == 4


@pytest.mark.parametrize("namespace", ["n", None, 5, ("",), ("a\0",), ("\ud83d",), (1,), ("x" * 5000,)])
def test_what_is_no_namespace(items, namespace):
    """A typed error on every verb."""
    for call in (
        lambda: items.put([new(namespace=namespace)]),
        lambda: items.get(namespace, "k"),
        lambda: items.delete(namespace, "k"),
        lambda: items.search(namespace),
        lambda: items.namespaces(namespace),
    ):
        with pytest.raises(InvalidInputError):
            call()


def test_no_namespace_is_one_too(items):
    """The empty one holds items as any other."""
    items.put([new(namespace=())])
    assert items.get((), "k").namespace == ()
    assert items.namespaces() == [()]


class TestItsOwnSpace:
    """Nothing else sees it, and it sees nothing else."""

    def test_nothing_is_shared_with_memories_and_documents(self, opened, items):
        """No recall, list or collection shows an item; the space is `store:<name>` (A0)."""
        items.put([new("k", "a text", "another")])
        opened.documents(scope=ALICE).put(["a text"])
        opened.add("a text", scope=ALICE)
        assert len(opened.recall("a text", scope=ALICE)) == 1
        assert len(opened.documents(scope=ALICE).search("a text")) == 1
        assert len(items.search(query="a")) == 1
        assert items.space == "store:default"
        assert len(opened.items("other", scope=ALICE).search()) == len(opened.items(scope=BOB).search()) == 0
        assert items.clear().records == 2
        assert len(opened.list_records(scope=ALICE)) == len(opened.documents(scope=ALICE).list()) == 1

    def test_it_goes_with_its_scope(self, opened, items):
        """Deleting the scope deletes its items, and counts them (A9)."""
        items.put([new("k", "a", "b")])
        opened.items(scope=BOB).put([new()])
        assert opened.delete(scope=ALICE).records == 2
        assert len(items.search()) == 0
        assert len(opened.items(scope=BOB).search()) == 1

    def test_a_scope_is_required(self, opened):
        """There is no default."""
        with pytest.raises(TypeError):
            opened.items()
        with pytest.raises(ScopeError):
            opened.items(scope="alice")

    def test_a_model_of_its_own(self, opened, axes):
        """A collection has the vectors of one model (C10)."""
        other = Axes()
        other.model = "other axes"
        own = opened.items("own", scope=ALICE, embedder=other)
        own.put([new("k", "b", "a"), new("l", "c")])
        assert other.texts == ["b", "a", "c"]
        assert axes.texts == []
        assert [one.score for one in own.search(query="a")] == [pytest.approx(1), pytest.approx(0.75)]
        with pytest.raises(ConfigError, match="other axes"):
            opened.items("own", scope=ALICE)
        with pytest.raises(ConfigError, match="embedder="):
            opened.items(scope=ALICE, embedding_model="m")


class TestTimeToLive:
    """Items that expire."""

    def test_gone_at_once_and_begun_anew(self, items, clock):
        """In seconds; a read that refreshes begins it anew for the item and all its texts."""
        items.put([new("k", "a", "b", ttl=60)])
        made = clock.now
        clock.now = made.replace(second=50)
        assert items.get(("n",), "k", refresh=False).expires_at == made.replace(minute=1)
        read = items.search(query="b")[0]
        assert (read.expires_at, read.updated_at) == (made.replace(minute=1, second=50), made)
        clock.now = made.replace(minute=1, second=49)
        assert items.search(query="b", refresh=False)[0].score == pytest.approx(1)
        clock.now = made.replace(minute=1, second=50)
        assert items.get(("n",), "k") is None
        assert len(items.search()) == len(items.search(query="b")) == len(items.namespaces()) == 0

    def test_who_writes_meanwhile_wins(self, opened, items, clock):
        """A read that refreshes undoes no write that happens while it reads, and brings nothing back."""

        def meanwhile(change, after):
            """Let `change` happen when this thread has asked for the time so many times."""
            calls, reader = itertools.count(1), threading.get_ident()

            class Interrupted(Clock):
                def __call__(self):
                    # The memory's own thread asks for the time too.
                    if threading.get_ident() == reader and next(calls) == after:
                        clock.__class__ = Clock
                        change()
                    return self.now

            clock.__class__ = Interrupted

        for change, left in (
            (lambda: items.put([new("k", "a", "b", value={"n": 2})]), {"n": 2}),
            (lambda: items.delete(("n",), "k"), None),
        ):
            for after in (2, 3):
                items.put([new("k", "a", "b", ttl=60)])
                meanwhile(change, after)
                assert items.get(("n",), "k").value == {"key": "k"}
                assert type(clock) is Clock
                stored = items.get(("n",), "k", refresh=False)
                assert (stored and (stored.value, stored.expires_at)) == (left and (left, None))
                assert len(opened.list_records(scope=ALICE, space=items.space)) == (2 if left else 0)

    def test_a_store_that_takes_no_writes(self, tmp_path, caplog):
        """What begins its time anew is read all the same; a warning says that it did not."""
        clock = Clock()
        with Memory.open(tmp_path / "m.db", config=Config(busy_timeout=0.05), clock=clock) as memory:
            items = memory.items(scope=ALICE)
            made = items.put([new("k", ttl=60), new("l", ttl=60)])
            clock.now += timedelta(seconds=10)
            with contextlib.closing(sqlite3.connect(tmp_path / "m.db")) as other:
                other.execute("BEGIN IMMEDIATE")
                assert items.get(("n",), "k") == made[0]
                assert sorted(items.search(), key=lambda one: one.key) == made
            assert "did not begin anew" in caplog.text
            assert items.get(("n",), "k").expires_at == made[0].expires_at + timedelta(seconds=10)

    def test_a_count_of_texts_that_cannot_be(self, opened, items):
        """An edited file may say any number; nobody counts up to it."""
        items.put([new("k", "a", "b", ttl=60)])
        file = io.StringIO()
        opened.export_jsonl(file, scope=ALICE)
        edited = file.getvalue().replace('"parts":1,', f'"parts":{2**62},')
        opened.import_jsonl(io.StringIO(edited), scopes={ALICE: BOB})
        assert opened.items(scope=BOB).get(("n",), "k").value == {"key": "k"}

    def test_the_end_of_all_dates(self, items, clock):
        """What would live beyond the last date there is stays readable, and keeps the end that it has."""
        left = (datetime.max.replace(tzinfo=UTC) - NOW).total_seconds() - 1
        made = items.put([new("k", "a", ttl=left)])
        clock.now += timedelta(seconds=10)
        assert items.get(("n",), "k").expires_at == made[0].expires_at == items.search()[0].expires_at

    @pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 1e300, "60", True])
    def test_times_that_cannot_be(self, items, ttl):
        """Are refused; nothing is written."""
        with pytest.raises(InvalidInputError, match="time to live"):
            items.put([new(ttl=ttl)])
        assert len(items.search()) == 0

    def test_sweeping(self, opened, items, clock):
        """Frees the space of an item with all its texts."""
        items.put([new("k", "a", "b", ttl=1), new("l", "a", "b")])
        clock.now = clock.now.replace(second=5)
        assert opened.upkeep.sweep().records == 2
        assert opened.upkeep.stats().by_space == {"store:default": 2}


class TestMoving:
    """Exports and imports."""

    def test_everything_goes_along(self, opened, items, clock):
        """Values, names, times, texts and vectors, under another scope too; twice changes nothing (F1)."""
        items.put([new("k", "b", "a", value={"n": {"é": [1.5, None]}}), new("ttl", "c", ttl=60)])
        opened.flush()
        file = io.StringIO()
        opened.export_jsonl(file, scope=ALICE)
        with Memory.open(":memory:", clock=clock, embedder=Axes()) as other:
            for _ in range(2):
                other.import_jsonl(io.StringIO(file.getvalue()), scopes={ALICE: BOB})
                moved = other.items(scope=BOB)
                assert moved.get(("n",), "k") == items.get(("n",), "k")
                assert keys(moved.search(query="a")) == ["k", "ttl"]
                assert other.upkeep.stats().by_space == {"store:default": 3}
            assert len(other.items(scope=ALICE).search()) == 0
            assert moved.delete(("n",), "k").records == 2
            assert moved.get(("n",), "ttl").expires_at == items.get(("n",), "ttl", refresh=False).expires_at

    def test_what_is_no_item_is_passed_over(self, opened, items):
        """An edited file may hold anything in the space; reads of what is right go on."""
        items.put([new("k", "a")])
        file = io.StringIO()
        opened.export_jsonl(file, scope=ALICE)
        lines = file.getvalue().splitlines()
        (row,) = (json.loads(line) for line in lines if '"store:default"' in line)
        for odd in ("x", "[]", "[1]", '["n",', '{"n":1}', "[" * 3000, '["n","k"]x'):
            lines.insert(1, json.dumps(row | {"id": odd}))
        lines.insert(
            1, json.dumps(row | {"id": '["n","l"]', "metadata": {"value": 5, "ttl": "x", "parts": "y"}})
        )
        lines[-1] = json.dumps(json.loads(lines[-1]) | {"lines": len(lines) - 2})
        opened.import_jsonl(io.StringIO("\n".join(lines)))
        assert opened.upkeep.stats().by_space == {"store:default": 9}
        assert keys(items.search(query="a")) == keys(items.search(limit=99)) == ["k"]
        assert items.namespaces() == [("n",)]
        assert items.get(("n",), "l") is None


async def test_awaited(tmp_path):
    """The same verbs on `AsyncMemory`."""
    async with await AsyncMemory.open(tmp_path / "m.db") as memory:
        items = await memory.items(scope=ALICE)
        await items.put([new("k", "green tea"), new("l")])
        assert (await items.get(("n",), "k")).value == {"key": "k"}
        assert keys(await items.search(query="tea")) == ["k", "l"]
        assert await items.namespaces() == [("n",)]
        await items.delete(("n",), "l")
        assert (await items.clear()).records == 1


def test_the_index_answers_and_its_rows_are_told_of_changes(tmp_path):
    """With Qdrant in a folder: what is put, changed, refreshed and deleted is right once it was written (B1)."""
    clock = Clock()
    with Memory.open(tmp_path / "m.db", clock=clock) as memory:
        items = memory.items(scope=ALICE)
        items.put([new("tea", "green tea", "black tea", ttl=60), new("cat", "a cat sleeps")])
        items.put([new("cat", "stocks fell")])
        memory.flush()
        clock.now = clock.now.replace(second=50)
        assert items.search(query="black tea")[0].key == "tea"
        memory.flush()
        clock.now = clock.now.replace(minute=1, second=40)
        assert items.search(query="black tea", refresh=False)[0].key == "tea"
        assert items.search(query="stocks", refresh=False)[0].key == "cat"
        items.delete(("n",), "tea")
        memory.flush()
        assert keys(items.search(query="tea")) == ["cat"]
        assert memory.upkeep.verify().whole
        assert (
            len(
                memory._store.vectors.scan(
                    Target(scope=ALICE, space="store:default"), where=None, now=clock.now
                )[0]
            )
            == 1
        )
