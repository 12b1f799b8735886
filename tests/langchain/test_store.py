"""`MemkitStore`: what users of LangGraph's stores expect of one, over one memory in a real file."""

import asyncio
import copy
import math
import pickle
import threading
import time
from collections import UserDict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from langchain_memkit import MemkitEmbeddings, MemkitMiddleware, MemkitStore
from memkit_core import Config, ConfigError, InvalidInputError, MemkitError, Memory, Scope, ScopeError

NOTES = ("notes",)


class SteppedClock:
    """A clock that stands still until a test moves it."""

    now = datetime(2026, 5, 4, 12, tzinfo=UTC)

    def __call__(self):
        return self.now

    def move(self, seconds):
        self.now += timedelta(seconds=seconds)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """One file for all tests, each of which begins with it empty: to make a file takes longer than to use it."""
    clock = SteppedClock()
    with Memory.open(tmp_path_factory.mktemp("store") / "memory.db", clock=clock) as memory:
        yield memory, clock


@pytest.fixture
def memory(opened):
    opened[0].delete(everything=True)
    return opened[0]


@pytest.fixture
def clock(opened):
    return opened[1]


@pytest.fixture
def store(memory, alice):
    return MemkitStore(memory, scope=alice)


@pytest.fixture
def angles(memory, alice, axes):
    """A store with a model of exact angles, over the field `text`."""
    return MemkitStore(memory, scope=alice, name="angles", index={"fields": ["text"], "embed": axes})


def keys(found):
    return [one.key for one in found]


def fill(store, namespace=NOTES, **values):
    store.batch([PutOp(namespace, key, value) for key, value in values.items()])


class TestPutGetDelete:
    """Values under names."""

    def test_a_value_comes_back(self, store, clock):
        """The same value under the same name, with aware times in UTC; None without one."""
        value = {"a": [1, 2.5, None, True, {"b": "c"}], "memkit_chunk": 1, "value": {"ttl": 2}, "": ""}
        store.put(NOTES, "k", value)
        found = store.get(NOTES, "k")
        assert type(found) is Item
        assert found == Item(
            value=value, key="k", namespace=NOTES, created_at=clock.now, updated_at=clock.now
        )
        assert found.created_at.tzinfo is UTC
        assert store.get(NOTES, "other") is None
        assert store.get(("other",), "k") is None
        assert store.get((*NOTES, "k"), "k") is None

    def test_an_update_keeps_when_it_was_made(self, store, clock):
        """`created_at` stays, `updated_at` moves, the value is replaced as a whole."""
        store.put(NOTES, "k", {"a": 1, "b": 2})
        made = clock.now
        clock.move(60)
        store.put(NOTES, "k", {"a": 3})
        found = store.get(NOTES, "k")
        assert (found.value, found.created_at, found.updated_at) == ({"a": 3}, made, clock.now)

    def test_what_is_put_again_after_a_delete_is_new(self, store, clock):
        """A deleted item leaves nothing behind, not even when it was made."""
        store.put(NOTES, "k", {"a": 1})
        store.delete(NOTES, "k")
        assert store.get(NOTES, "k") is None
        assert store.search(()) == store.list_namespaces() == []
        store.delete(NOTES, "k")
        store.put(NOTES, "k", {"a": 1})
        store.put(NOTES, "k", None)
        assert store.get(NOTES, "k") is None
        clock.move(60)
        store.put(NOTES, "k", {"a": 1})
        assert store.get(NOTES, "k").created_at == clock.now

    def test_nothing_is_shared_with_the_caller(self, store):
        """What was put and what was read can be changed without a trace, nested parts too."""
        value = {"list": [1], "mapping": UserDict(a=1)}
        before = copy.deepcopy(value)
        store.put(NOTES, "k", value)
        assert value == before
        value["list"].append(2)
        found = store.get(NOTES, "k")
        found.value["list"].append(3)
        store.search(NOTES)[0].value["list"].append(4)
        assert store.get(NOTES, "k").value == {"list": [1], "mapping": {"a": 1}}

    @pytest.mark.parametrize(
        "odd",
        [
            {1, 2}, b"x", datetime(2026, 1, 1, tzinfo=UTC), math.nan, math.inf, 2**70, object(), "a\0b",
            "half \ud83d", {1: 2}, {"a\0": 1},
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("nested", [lambda odd: odd, lambda odd: [{"b": odd}]])
    def test_what_cannot_be_stored_is_an_error_that_names_the_key(self, store, odd, nested):
        """A `ValueError` that names the key, and nothing of the batch is written (B24)."""
        with pytest.raises(InvalidInputError, match="wrong") as caught:
            store.batch([PutOp(NOTES, "good", {"a": 1}), PutOp(NOTES, "k", {"wrong": nested(odd)})])
        assert isinstance(caught.value, ValueError)
        str(caught.value).encode()
        assert store.search(()) == []

    def test_a_tuple_is_a_list(self, store):
        """The one documented conversion."""
        store.put(NOTES, "k", {"a": (1, ("b",))})
        assert store.get(NOTES, "k").value == {"a": [1, ["b"]]}

    @pytest.mark.parametrize("value", ["text", 1, ["a"], [("a", 1)], {1: 2}, True])
    def test_a_value_is_a_mapping_with_text_keys(self, store, value):
        """Anything else is refused."""
        with pytest.raises(InvalidInputError):
            store.put(NOTES, "k", value)
        assert store.search(()) == []

    @pytest.mark.parametrize(
        "key",
        ["", " ", "a.b", "a/b:c@d.example", "'; --", '"', "\\", '","', "é", "e\u0301", "👩‍👧", "x" * 3900],
    )
    def test_any_key(self, store, key):
        """Keys are data, each of its own, taken as it is (B32)."""
        store.put(NOTES, key, {"key": key})
        store.put(NOTES, key + "!", {"key": "other"})
        assert store.get(NOTES, key).value == {"key": key}
        assert store.get(NOTES, key).key == key
        store.delete(NOTES, key)
        assert keys(store.search(())) == [key + "!"]

    @pytest.mark.parametrize("key", ["a\0b", "half \ud83d", "x" * 5000])
    def test_keys_that_cannot_be(self, store, key):
        """Refused when writing as when reading, never cut or changed."""
        for call in (
            lambda: store.put(NOTES, key, {}),
            lambda: store.get(NOTES, key),
            lambda: store.delete(NOTES, key),
        ):
            with pytest.raises(InvalidInputError):
                call()

    def test_a_key_of_an_operation_is_a_text(self, store):
        """`put` and `get` make one of a number as LangGraph does; in an operation it is refused."""
        store.put(NOTES, 7, {"a": 1})
        assert store.get(NOTES, 7).key == store.get(NOTES, "7").key == "7"
        for op in (
            GetOp(NOTES, 7),
            PutOp(NOTES, 7, {}),
            PutOp(NOTES, None, {}),
            PutOp(NOTES, ["k"], {}),
            PutOp(NOTES, b"k", None),
        ):
            with pytest.raises(InvalidInputError):
                store.batch([op])

    def test_what_names_look_like_does_not_make_them_equal(self, store):
        """Labels and key never run into each other, whatever stands in them (B30, B32)."""
        names = [
            (("a", "b"), "c"), (("a",), "b"), (("ab",), "c"), (("a", "b", "c"), "d"), (("a:b",), "c"), (("a", "b:c"), "c"),
            (('a","b',), "c"), (("a",), 'b","c'), (("A", "b"), "c"), (("a", "B"), "c"), (("a/b",), "c"), (("a%",), "c"), (("a_",), "c"),
            (("a*",), "c"), (("a",), "c]1"), (("a",), "c"), (("a", " b"), "c"), (("user@x_example", "b"), "c"),
        ]  # fmt: skip
        for number, (namespace, key) in enumerate(names):
            store.put(namespace, key, {"n": number})
        assert [store.get(namespace, key).value["n"] for namespace, key in names] == [*range(len(names))]
        assert sorted(store.list_namespaces()) == sorted({namespace for namespace, _ in names})
        for namespace, _ in names:
            expected = {one for one in names if one[0][: len(namespace)] == namespace}
            assert {(one.namespace, one.key) for one in store.search(namespace, limit=99)} == expected
        for namespace, key in names:
            store.delete(namespace, key)
            assert store.get(namespace, key) is None
        assert store.search(()) == []

    @pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("a", ""), (1,), ("a\0",), "notes", None, 5])
    def test_namespaces_that_cannot_be(self, store, namespace):
        """Refused in every way to write, also in the operations of a batch; nothing is written."""
        for put in (
            lambda: store.put(namespace, "k", {}),
            lambda: store.batch([PutOp(NOTES, "good", {}), PutOp(namespace, "k", {})]),
            lambda: asyncio.run(store.abatch([PutOp(namespace, "k", {})])),
        ):
            with pytest.raises((InvalidNamespaceError, TypeError)) as caught:
                put()
            # LangGraph's own check before the store is reached cannot count what is no list.
            assert isinstance(caught.value, ValueError) or namespace in (None, 5)
        if namespace != ():
            for op in (GetOp(namespace, "k"), SearchOp(namespace), PutOp(namespace, "k", None)):
                with pytest.raises(InvalidNamespaceError):
                    store.batch([op])
        assert store.search(()) == []

    def test_a_label_is_text_that_can_be_stored(self, store):
        """What LangGraph lets through and no store can hold is refused."""
        with pytest.raises(ValueError, match="surrogate"):
            store.put(("half \ud83d",), "k", {})

    def test_langgraphs_own_root(self, store):
        """The root "langgraph" is not for `put`; an operation may use it, as in LangGraph's own stores."""
        with pytest.raises(InvalidNamespaceError):
            store.put(("langgraph", "x"), "k", {})
        store.batch([PutOp(("langgraph", "x"), "k", {"a": 1})])
        assert store.get(("langgraph", "x"), "k").value == {"a": 1}

    def test_lists_are_namespaces_too(self, store):
        """What comes out of JSON has lists for tuples."""
        store.put(["a", "b"], "k", {"n": 1})
        assert store.get(["a", "b"], "k") == store.get(("a", "b"), "k")
        assert store.search(["a"])[0].namespace == ("a", "b")
        assert store.list_namespaces(prefix=["a"], suffix=["b"]) == [("a", "b")]


class TestBatch:
    """Many operations at once."""

    def test_results_stand_in_the_order_of_the_operations(self, store):
        """Reads see what was there before the puts of their batch; puts and deletes give None."""
        fill(store, a={"n": 1}, b={"n": 2})
        results = store.batch(
            op
            for op in (
                PutOp(NOTES, "a", {"n": 9}),
                GetOp(NOTES, "a"),
                SearchOp(NOTES, filter={"n": 2}),
                PutOp(NOTES, "b", None),
                ListNamespacesOp(),
                PutOp(("new",), "c", {}),
                GetOp(NOTES, "none"),
            )
        )
        assert [results[i] for i in (0, 3, 5, 6)] == [None] * 4
        assert results[1].value == {"n": 1}
        assert keys(results[2]) == ["b"]
        assert results[4] == [NOTES]
        assert store.get(NOTES, "a").value == {"n": 9}
        assert store.get(NOTES, "b") is None
        assert store.list_namespaces() == [("new",), NOTES]
        assert store.batch([]) == []

    def test_the_last_of_a_name_counts(self, store):
        """Several puts and deletes of one name are the last of them."""
        store.batch([PutOp(NOTES, "a", {"n": 1}), PutOp(["notes"], "a", {"n": 2}), PutOp(NOTES, "b", {"n": 1}),
                     PutOp(NOTES, "b", None)])  # fmt: skip
        store.batch([PutOp(NOTES, "c", None), PutOp(NOTES, "c", {"n": 3})])
        assert {one.key: one.value["n"] for one in store.search(())} == {"a": 2, "c": 3}

    @pytest.mark.parametrize(
        "op",
        [
            PutOp(("a.b",), "k", {}), PutOp(NOTES, "k", {"a": {1}}), PutOp(NOTES, "k", {}, index="text"), PutOp(NOTES, "k", {}, index=True),
            PutOp(NOTES, "k", {}, ttl=0), PutOp(NOTES, "k", {}, ttl="5"), PutOp(NOTES, "k", {}, ttl=math.nan), PutOp(NOTES, "k", {}, ttl=1e300),
            SearchOp(NOTES, filter={"a": {"$in": [1]}}), SearchOp(NOTES, filter="a"), SearchOp(NOTES, limit=-1), SearchOp(NOTES, offset=-1), ListNamespacesOp(match_conditions=1),
            SearchOp(NOTES, limit="3"), SearchOp(NOTES, query=3), ListNamespacesOp(limit=-1), ListNamespacesOp(max_depth=-1),
            ListNamespacesOp(match_conditions=(MatchCondition("infix", ("a",)),)), ListNamespacesOp(match_conditions=("a",)),
            ("get", "k"), None, object(),
        ],
    )  # fmt: skip
    def test_all_or_nothing(self, store, op):
        """One operation that cannot be done, and nothing of the batch is written."""
        store.put(NOTES, "old", {"n": 1})
        with pytest.raises((InvalidInputError, InvalidNamespaceError)) as caught:
            store.batch([PutOp(NOTES, "new", {}), PutOp(NOTES, "old", None), op])
        assert isinstance(caught.value, ValueError)
        assert keys(store.search(())) == ["old"]

    def test_what_is_no_list_of_operations(self, store):
        """Is refused."""
        with pytest.raises(InvalidInputError):
            store.batch(5)

    async def test_async_forms_do_the_same(self, store):
        """Each method has its form to await, off the loop's thread, in any order and at once."""
        await asyncio.gather(
            *(store.aput(("n", str(n % 3)), f"k{n}", {"n": n, "text": f"number {n}"}) for n in range(12))
        )
        assert (await store.aget(("n", "0"), "k3")).value["n"] == 3
        assert len(await store.asearch(("n",), filter={"n": {"$gte": 6}})) == 6
        assert await store.alist_namespaces(prefix=("n",)) == [("n", "0"), ("n", "1"), ("n", "2")]
        await store.adelete(("n", "0"), "k3")
        assert await store.aget(("n", "0"), "k3") is None
        results = await store.abatch([GetOp(("n", "0"), "k0"), PutOp(("n", "0"), "k0", None)])
        assert results[0].value["n"] == 0
        with pytest.raises(InvalidNamespaceError):
            await store.abatch([GetOp(("a.b",), "k")])

    async def test_sync_calls_inside_a_running_loop(self, store):
        """They work, on the loop's own thread as in another one (B68)."""
        store.put(NOTES, "k", {"text": "tea"})
        assert store.get(NOTES, "k").value == (await store.aget(NOTES, "k")).value
        assert keys(store.search(NOTES, query="tea")) == ["k"]
        assert await asyncio.to_thread(store.list_namespaces) == [NOTES]

    async def test_the_loop_goes_on_meanwhile(self, memory, alice, axes):
        """A model that takes its time holds up a thread, not the loop."""
        going, ticks = threading.Event(), 0
        axes.embed_documents = lambda texts: (going.wait(10), [[1.0, 0.0] for _ in texts])[1]
        store = MemkitStore(memory, scope=alice, index={"embed": axes})
        putting = asyncio.create_task(store.aput(NOTES, "k", {"text": "a"}))
        while ticks < 5:
            await asyncio.sleep(0.01)
            ticks += 1
        assert not putting.done()
        going.set()
        await putting


class TestListing:
    """Searches without a query, and namespaces."""

    def test_last_updated_first(self, store, clock):
        """Of the same moment the last made; no score; limit and offset slice this order."""
        for key in "abcd":
            store.put(NOTES, key, {"k": key})
            clock.move(1)
        store.put(NOTES, "b", {"k": "b2"})
        fill(store, x={}, y={})
        found = store.search(NOTES)
        assert keys(found) == ["y", "x", "b", "d", "c", "a"]
        assert {type(one) for one in found} == {SearchItem}
        assert {one.score for one in found} == {None}
        assert keys(store.search(NOTES, limit=2, offset=1)) == ["x", "b"]
        assert store.search(NOTES, limit=0) == store.search(NOTES, offset=6) == []
        assert keys(store.search(NOTES, query="")) == keys(store.search(NOTES, query="  ")) == keys(found)

    def test_ten_unless_told_otherwise(self, store):
        """The default limit is LangGraph's; any other gives all there are."""
        fill(store, **{f"k{n}": {"n": n} for n in range(30)})
        assert len(store.search(())) == 10
        assert len(store.search((), limit=10**6)) == 30
        assert len(store.search((), query="k", limit=10**6)) == 30

    def test_whole_labels_count(self, store):
        """("user",) is a prefix of ("user", "x") and of itself, not of ("users",)."""
        for namespace in (("user",), ("user", "x"), ("users",), ("use",), ("x", "user"), ("User",)):
            store.put(namespace, "k", {})
        assert {one.namespace for one in store.search(("user",))} == {("user",), ("user", "x")}
        assert {one.namespace for one in store.search(("user",), query="k")} == {("user",), ("user", "x")}

    def test_namespaces_that_hold_something(self, store):
        """Sorted, by prefix, suffix, wildcards, depth and slice."""
        names = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f"), ("ab",)]  # fmt: skip
        for name in reversed(names):
            store.put(name, "k1", {"text": ["x", "y"]}, index=["text[*]"])
            store.put(name, "k2", {})
        ask = store.list_namespaces
        assert ask() == sorted(names)
        assert ask(prefix=("a", "b")) == sorted(names[:4])
        assert ask(prefix=("a",), suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f")]
        assert ask(suffix=("f",)) == [("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]
        assert ask(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
        assert ask(prefix=("*", "a")) == [("b", "a", "f")]
        assert ask(suffix=("d", "*")) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
        assert (
            ask(prefix=("*",) * 4) == ask(suffix=("*",) * 4) == [("a", "b", "d", "e"), ("a", "b", "d", "i")]
        )
        assert ask(prefix=("a", "b"), max_depth=3) == [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]
        assert ask(max_depth=1) == [("a",), ("ab",), ("b",)]
        assert ask(limit=2, offset=1) == sorted(names)[1:3]
        assert ask(prefix=("none",)) == []
        conditions = (MatchCondition("prefix", ("a",)), MatchCondition("prefix", ("*", "c")))
        assert store.batch([ListNamespacesOp(conditions)]) == [[("a", "c", "f")]]
        store.delete(("ab",), "k1")
        store.delete(("ab",), "k2")
        assert ("ab",) not in ask()


class TestRanking:
    """Searches with a query."""

    def test_the_nearest_first_with_the_similarity(self, angles):
        """The score is (1 + cosine) / 2: identical 1, right angle 0.5, opposite 0 (B42)."""
        fill(angles, a={"text": "a"}, b={"text": "b"}, c={"text": "c"}, z={"text": "z"})
        found = angles.search(NOTES, query="a")
        assert [(one.key, one.score) for one in found] == [
            ("a", pytest.approx(1, abs=1e-6)),
            ("c", pytest.approx(0.75, abs=1e-6)),
            ("b", pytest.approx(0.5, abs=1e-6)),
            ("z", pytest.approx(0, abs=1e-6)),
        ]
        assert keys(angles.search(NOTES, query="a", limit=2, offset=1)) == ["c", "b"]

    def test_what_was_not_compared_stands_behind(self, angles, clock):
        """Not indexed, without the field, or without a vector: last updated first, without a score."""
        fill(angles, a={"text": "a"}, b={"text": "b"})
        for number, put in enumerate(
            [("off", {"text": "a"}, False), ("none", {"other": "a"}, None), ("zero", {"text": "?"}, None)]
        ):
            clock.move(number + 1)
            angles.put(NOTES, *put)
        found = angles.search(NOTES, query="a")
        assert [(one.key, one.score is None) for one in found] == [
            ("a", False), ("b", False), ("zero", True), ("none", True), ("off", True),
        ]  # fmt: skip
        assert keys(angles.search(NOTES, query="a", limit=2)) == ["a", "b"]
        for offset in range(6):
            page = angles.search(NOTES, query="a", limit=2, offset=offset)
            assert keys(page) == keys(found)[offset : offset + 2]
        assert angles.get(NOTES, "off").value == {"text": "a"}

    def test_an_item_is_as_near_as_the_nearest_of_its_texts(self, memory, alice, axes):
        """Each field, and each element of `x[*]`, is indexed by itself; an item is found once."""
        store = MemkitStore(
            memory, scope=alice, index={"embed": axes, "fields": ["one", "deep.er", "list[*].text"]}
        )
        fill(
            store,
            many={"one": "b", "deep": {"er": "z"}, "list": [{"text": "b"}, {"text": "c"}]},
            single={"one": "b"},
            all={"one": "a", "deep": {"er": "a"}, "list": [{"text": "a"}]},
        )
        scores = {one.key: one.score for one in store.search((), query="a")}
        assert scores == {"all": pytest.approx(1), "many": pytest.approx(0.75), "single": pytest.approx(0.5)}
        assert [(one.key, one.score) for one in store.search((), query="z", limit=1)] == [
            ("many", pytest.approx(1))
        ]
        for limit in range(1, 4):
            assert len(store.search((), query="a", limit=limit)) == limit
        assert keys(store.search((), query="a", filter={"one": "b"})) == ["many", "single"]
        assert len(store.search(())) == len(store.search(NOTES, limit=99)) == 3
        fill(store, many={"one": "b"})
        assert store.search((), query="z", limit=1)[0].score == pytest.approx(0.5)
        store.delete(NOTES, "many")
        assert keys(store.search((), query="b", limit=9)) == ["single", "all"]

    def test_what_a_put_says_is_indexed(self, memory, alice, axes):
        """The fields of one put, in place of those of the store."""
        store = MemkitStore(memory, scope=alice, index={"embed": axes, "fields": ["text"]})
        store.put(NOTES, "k", {"text": "a", "other": "b"}, index=["other"])
        assert store.search((), query="b")[0].score == pytest.approx(1)
        store.put(NOTES, "k", {"text": "a", "other": "b"})
        assert store.search((), query="b")[0].score == pytest.approx(0.5)
        store.put(NOTES, "k", {"text": "a", "other": "b"}, index=[])
        assert store.search((), query="b")[0].score is None

    def test_the_whole_value_by_default(self, store):
        """With the memory's own model, nothing has to be configured."""
        fill(
            store,
            pet={"note": "The cat sleeps on the sofa", "tags": ["animal"]},
            market={"note": "Stock prices fell sharply"},
        )
        found = store.search(NOTES, query="a sleeping cat")
        assert found[0].key == "pet"
        assert 1 >= found[0].score > found[1].score >= 0

    def test_every_script_is_found(self, store):
        """Values in any language are ranked by their own words."""
        texts = {"zh": "这是中文", "ja": "これは日本語です", "ko": "이건 한국어야", "ru": "Это русский"}
        fill(store, **{key: {"text": text} for key, text in texts.items()})
        for key, text in texts.items():
            assert store.search(NOTES, query=text)[0].key == key

    def test_a_new_value_has_a_new_rank(self, angles):
        """What an item was found by before is gone with its old value."""
        fill(angles, k={"text": "a"}, other={"text": "c"})
        fill(angles, k={"text": "z"})
        assert keys(angles.search(NOTES, query="a")) == ["other", "k"]
        assert angles.search(NOTES, query="z")[0].score == pytest.approx(1)

    def test_without_an_index_a_query_ranks_nothing(self, memory, alice):
        """`index=False`: a search with a query is one without; what a put says of fields counts for nothing."""
        store = MemkitStore(memory, scope=alice, index=False)
        store.put(NOTES, "k", {"text": "tea"}, index=["text"])
        store.put(NOTES, "l", {"text": "coffee"})
        assert [(one.key, one.score) for one in store.search(NOTES, query="tea")] == [
            ("l", None),
            ("k", None),
        ]

    def test_what_the_index_is(self, memory, alice, axes):
        """An app sees by `index_config`, as of any store of LangGraph, whether queries rank, and by what."""
        assert MemkitStore(memory, scope=alice, index=False).index_config is None
        assert MemkitStore(memory, scope=alice, index=False).embeddings is None
        whole = MemkitStore(memory, scope=alice)
        assert whole.index_config["fields"] == ["$"]
        for model in (whole.embeddings, whole.index_config["embed"]):
            assert model.embed_query("tea") == pytest.approx(MemkitEmbeddings().embed_query("tea"))
        given = {"dims": 2, "embed": axes, "fields": ["text"]}
        store = MemkitStore(memory, scope=alice, name="angles", index=given)
        for one in (store, copy.deepcopy(store)):
            assert one.index_config == given
            assert one.embeddings is axes
        store.index_config["fields"].append("other")
        store.put(NOTES, "k", {"text": "z", "other": "a"})
        assert store.search(NOTES, query="a")[0].score < 1
        assert store.index_config == given

    def test_words_and_vectors_together(self, memory, alice):
        """`mode="hybrid"` finds an identifier by its letters; scores are in [0, 1] and fall."""
        store = MemkitStore(memory, scope=alice, mode="hybrid")
        fill(store, **{f"k{n}": {"text": f"shelf {n} holds part ZX-99{n:02}"} for n in range(40)})
        found = store.search(NOTES, query="ZX-9917", limit=5)
        assert found[0].key == "k17"
        assert [1 >= one.score >= 0 for one in found] == [True] * 5
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        twins = {"one": {"text": "equal words"}, "two": {"text": "equal words"}}
        fill(store, ("twins",), **twins)
        assert {*keys(store.search(("twins",), query="equal words"))} == {*twins}

    @pytest.mark.parametrize(
        "text", ["POL-358", "don't", "GB/s", "a:b", "C++", "foo AND bar", '"quoted"', "(x", "*y", "NEAR(z", "ann@lund.example", "x' OR '1'='1"]
    )  # fmt: skip
    def test_a_query_is_text(self, memory, alice, text):
        """What looks like a query language is looked for as it is written, in every mode (B53)."""
        for mode in ("dense", "keyword", "hybrid"):
            store = MemkitStore(memory, scope=alice, mode=mode, index={"fields": ["text"]})
            fill(store, it={"text": f"this one says {text} and more"}, other={"text": "nothing of the kind"})
            assert store.search(NOTES, query=text)[0].key == "it"

    @pytest.mark.parametrize("query", ["the", "\0", "half \ud83d", "?!", "word " * 5000, "\n", "🦉"])
    def test_a_query_that_says_little(self, store, query):
        """Never an error, and nothing is hidden."""
        fill(store, one={"text": "tea"}, two={"text": "coffee"})
        assert {*keys(store.search(NOTES, query=query))} == {"one", "two"}

    def test_words_answer_when_the_model_is_down(self, angles, axes, caplog):
        """Nothing is hidden, the warning says what was missing, and no score is made up."""
        fill(angles, a={"text": "a tea"}, b={"text": "b coffee"})
        axes.down = True
        fill(angles, late={"text": "a late tea"})
        found = angles.search(NOTES, query="coffee")
        assert found[0].key == "b"
        assert {one.key for one in found} == {"a", "b", "late"}
        assert {one.score for one in found} == {None}
        assert "missing: dense" in caplog.text

    def test_one_text_that_fails_loses_nothing(self, angles, axes):
        """A text the model refuses is stored and read, and ranked by no vector (B49)."""
        axes.refused = {"c no"}
        fill(angles, a={"text": "a"}, c={"text": "c no"}, b={"text": "b"})
        assert {*keys(angles.search(NOTES))} == {"a", "b", "c"}
        found = angles.search(NOTES, query="a")
        assert [(one.key, one.score) for one in found] == [("a", pytest.approx(1)), ("b", pytest.approx(0.5)), ("c", None)]  # fmt: skip

    def test_a_value_longer_than_can_be_indexed(self, tmp_path, alice):
        """It is stored whole; only what it is found by is cut."""
        with Memory.open(tmp_path / "small.db", config=Config(max_content_chars=100)) as memory:
            store = MemkitStore(memory, scope=alice)
            value = {"text": "tea " * 100}
            store.put(NOTES, "k", value)
            assert store.search(NOTES, query="tea")[0].value == value


class TestTimeToLive:
    """Items that expire."""

    def test_gone_at_once(self, store, clock):
        """In minutes; from then on no read shows it, and its name is free (A7)."""
        store.put(NOTES, "k", {"text": ["a", "b"]}, index=["text[*]"], ttl=1.5)
        store.put(NOTES, "for ever", {"text": "a"})
        made = clock.now
        clock.move(89.9)
        assert store.get(NOTES, "k", refresh_ttl=False).updated_at == made
        clock.move(0.1)
        assert store.get(NOTES, "k") is None
        assert keys(store.search(NOTES)) == keys(store.search(NOTES, query="a")) == ["for ever"]
        store.delete(NOTES, "for ever")
        assert store.list_namespaces() == []
        store.put(NOTES, "k", {})
        assert store.get(NOTES, "k").created_at == clock.now
        clock.move(10**6)
        assert store.get(NOTES, "k") is not None

    def test_a_read_begins_it_anew(self, store, clock):
        """Each get and search that returns it, without moving `updated_at` or its place in a listing."""
        store.put(NOTES, "k", {"text": ["a", "b"]}, index=["text[*]"], ttl=1)
        made = clock.now
        clock.move(1)
        store.put(NOTES, "later", {})
        for read in (
            lambda: store.get(NOTES, "k"),
            lambda: store.search(NOTES)[1],
            lambda: store.search(NOTES, query="b", limit=1)[0],
        ):
            clock.move(50)
            assert (read().key, read().updated_at) == ("k", made)
        clock.move(59)
        assert store.search(NOTES, query="b", limit=1, refresh_ttl=False)[0].key == "k"
        assert keys(store.search(NOTES, refresh_ttl=False)) == ["later", "k"]
        clock.move(1)
        assert store.get(NOTES, "k") is None

    def test_the_settings_of_the_store(self, memory, alice, clock):
        """A default for every put that says none; reads refresh as told."""
        ttl = {"default_ttl": 1, "refresh_on_read": False}
        store = MemkitStore(memory, scope=alice, ttl=ttl)
        assert store.supports_ttl
        store.put(NOTES, "default", {})
        store.put(NOTES, "longer", {}, ttl=2)
        store.put(NOTES, "for ever", {}, ttl=None)
        clock.move(59)
        assert len(store.search(NOTES)) == 3
        clock.move(1)
        assert keys(store.search(NOTES)) == ["for ever", "longer"]
        assert store.get(NOTES, "longer", refresh_ttl=True)
        clock.move(119)
        assert store.get(NOTES, "longer")
        assert ttl == {"default_ttl": 1, "refresh_on_read": False}

    def test_sweeping_frees_the_space(self, store, memory, alice, clock):
        """What has expired is deleted with its texts; what has not stays."""
        store.put(NOTES, "k", {"text": ["a", "b"]}, index=["text[*]"], ttl=1)
        store.put(NOTES, "stays", {})
        clock.move(60)
        assert len(memory.list_records(scope=alice, space="store:default")) == 1
        assert store.sweep_ttl() == 2
        assert store.sweep_ttl() == 0
        assert keys(store.search(NOTES)) == ["stays"]

    def test_a_thread_that_sweeps(self, memory, alice, clock):
        """It runs until it is stopped, and survives being started and stopped twice."""
        store = MemkitStore(memory, scope=alice, ttl={"sweep_interval_minutes": 0.0001})
        store.put(NOTES, "k", {}, ttl=1)
        clock.move(60)
        store.start_ttl_sweeper()
        store.start_ttl_sweeper()
        while memory.upkeep.stats().by_space:
            time.sleep(0.01)
        assert store.stop_ttl_sweeper(30)
        assert store.stop_ttl_sweeper()

    @pytest.mark.parametrize("minutes", [0, -1, "5"])
    def test_an_interval_that_cannot_be(self, memory, alice, minutes):
        """Is refused, 0 too, and no thread starts."""
        store = MemkitStore(memory, scope=alice)
        with pytest.raises(InvalidInputError, match="above 0"):
            store.start_ttl_sweeper(minutes)
        assert store.stop_ttl_sweeper()

    @pytest.mark.parametrize(
        "ttl", [5, {"default": 1}, {"default_ttl": -1}, {"default_ttl": "1"}, {"refresh_on_read": "no"}, {"sweep_interval_minutes": 0}]
    )  # fmt: skip
    def test_settings_that_cannot_be(self, memory, alice, ttl):
        """Are refused when the store is made."""
        with pytest.raises((ConfigError, InvalidInputError)):
            MemkitStore(memory, scope=alice, ttl=ttl)


class TestOpening:
    """What a store is made of."""

    @pytest.mark.parametrize("scope", [None, "alice", ("alice",)])
    def test_a_scope_is_required(self, memory, scope):
        """There is no default, and a text is no scope."""
        with pytest.raises(ScopeError):
            MemkitStore(memory, scope=scope)
        with pytest.raises(TypeError):
            MemkitStore(memory)

    @pytest.mark.parametrize("given", [None, "memory.db", object()])
    def test_a_memory_is_required(self, alice, given):
        """Nothing else is one."""
        with pytest.raises(InvalidInputError, match="memory must be"):
            MemkitStore(given, scope=alice)

    @pytest.mark.parametrize(
        "settings",
        [
            {"index": True}, {"index": ["text"]}, {"index": {"field": ["text"]}}, {"index": {"fields": "text"}}, {"index": {"fields": [1]}},
            {"index": {"embed": 5}}, {"index": {"embed": len}}, {"index": {"embed": "nobody:nothing"}}, {"embedding_model": "m"},
            {"name": ""}, {"name": None}, {"mode": "best"},
        ],
    )  # fmt: skip
    def test_settings_that_cannot_be(self, memory, alice, settings):
        """Each is a typed error before anything is written."""
        with pytest.raises((ConfigError, InvalidInputError)):
            MemkitStore(memory, scope=alice, **settings)

    def test_an_embedding_function_needs_a_name(self, memory, alice):
        """A function does not know its model; an async one cannot be waited for everywhere."""

        def embed(texts):
            return [[1.0, float(len(text))] for text in texts]

        async def aembed(texts):
            return embed(texts)

        store = MemkitStore(memory, scope=alice, index={"embed": embed, "dims": 2}, embedding_model="lengths")
        store.put(NOTES, "k", {"text": "tea"})
        assert store.search((), query='{"text": "tea"}')[0].score == pytest.approx(1)
        with pytest.raises(ConfigError, match="embedding_model"):
            MemkitStore(memory, scope=alice, name="x", index={"embed": embed})
        with pytest.raises(ConfigError, match="async"):
            MemkitStore(memory, scope=alice, name="x", index={"embed": aembed}, embedding_model="lengths")

    def test_another_model_is_refused(self, angles, memory, alice):
        """A collection has the vectors of one model (B47)."""
        fill(angles, a={"text": "a"})
        with pytest.raises(ConfigError, match="axes"):
            MemkitStore(memory, scope=alice, name="angles")

    def test_scopes_and_names_never_meet(self, memory, alice, bob, store):
        """What belongs to one is in no read of another, and stays when another is cleared (B30, B36)."""
        others = [MemkitStore(memory, scope=scope, name=name) for scope, name in ((bob, "default"), (alice, "b"),
                  (Scope.session("default", user="alice"), "default"), (Scope.user("alice", org="o"), "default"))]  # fmt: skip
        store.put(NOTES, "k", {"text": "mine"})
        for one in others:
            assert one.get(NOTES, "k") is None
            assert one.search(()) == one.search((), query="mine") == one.list_namespaces() == []
            one.put(NOTES, "k", {"text": "theirs"})
            one.delete(NOTES, "k")
        assert store.get(NOTES, "k").value == {"text": "mine"}
        memory.delete(scope=bob)
        assert len(store.search(())) == 1
        assert len(memory.recall("mine", scope=alice)) == len(memory.list_records(scope=alice)) == 0
        assert memory.delete(scope=alice).records == 1
        assert store.search(()) == []

    def test_it_survives_in_the_file(self, path, clock, alice):
        """Another opening of the file shows the same items, times and ranks (F2)."""
        for _ in range(2):
            with Memory.open(path, clock=clock) as memory:
                store = MemkitStore(memory, scope=alice)
                if not store.search(()):
                    fill(store, a={"text": "green tea"}, b={"text": "stocks"})
                assert [one.value for one in store.search(NOTES, query="tea", limit=1)] == [
                    {"text": "green tea"}
                ]

    def test_copies_share_and_pickles_reopen(self, store, memory, alice):
        """Copies use the same memory; a pickle opens its file again (B71)."""
        store.put(NOTES, "k", {"n": 1})
        for made in (copy.copy(store), copy.deepcopy({"s": store})["s"]):
            assert made.memory is memory
            made.put(NOTES, "k2", {"n": 2})
            assert len(store.search(())) == 2
        again = pickle.loads(pickle.dumps(store))
        with again.memory:
            assert again.get(NOTES, "k").value == {"n": 1}
            assert (again.scope, again.name) == (alice, "default")
        with Memory.open(":memory:") as gone, pytest.raises(ConfigError):
            pickle.dumps(MemkitStore(gone, scope=alice))

    def test_after_close_each_call_says_so(self, path, alice):
        """A closed memory is a typed error, never an empty answer."""
        with Memory.open(path) as memory:
            store = MemkitStore(memory, scope=alice)
        for call in (
            lambda: store.get(NOTES, "k"),
            lambda: store.search(()),
            lambda: store.put(NOTES, "k", {}),
            store.list_namespaces,
        ):
            with pytest.raises(MemkitError, match="closed"):
                call()

    def test_its_repr_says_whose_it_is(self, store):
        """And no value."""
        assert repr(store) == "MemkitStore(scope=Scope(user:alice), name='default')"

    def test_an_old_langgraph_is_named(self, python):
        """Without LangGraph, or with one before 4.3, the error ends with the command."""
        old = "import langgraph.store.base as b; del b.validate_op_namespace"
        none = "import sys; sys.modules['langgraph.store.base'] = None"
        for first in (old, none):
            done = python(
                f"{first}\nimport langchain_memkit\ntry:\n    langchain_memkit.MemkitStore\n"
                "except ImportError as error:\n    print(type(error).__name__, error)"
            )
            assert done.stdout.strip() == (
                "MissingDependencyError langgraph-checkpoint 4.3.0 or newer is not installed. "
                "Run: pip install 'memkit-llm[agents]'"
            ), done.stderr


class TestAtOnce:
    """Many users of one store."""

    def test_threads(self, store):
        """Puts, reads, searches and deletes from many threads: nothing fails, the last put of a key counts."""

        def work(number):
            for turn in range(5):
                store.put(NOTES, "shared", {"by": number})
                store.put(("own", str(number)), f"k{turn}", {"text": f"{number} {turn}"})
                assert store.get(("own", str(number)), f"k{turn}").value == {"text": f"{number} {turn}"}
                store.search((), query=str(turn), limit=3)
                store.delete(("own", str(number)), f"k{turn - 1}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert store.get(NOTES, "shared").value["by"] in range(8)
        assert sorted(keys(store.search(("own",), limit=99))) == ["k4"] * 8

    def test_reads_that_refresh_at_once(self, store, clock):
        """Many readers of an expiring item, and a writer: no error, and the write is not undone."""
        store.put(NOTES, "k", {"n": 0}, ttl=5)

        def work(number):
            for turn in range(10):
                if number == 0:
                    store.put(NOTES, "k", {"n": turn}, ttl=5)
                else:
                    assert store.get(NOTES, "k").value["n"] in range(10)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert store.get(NOTES, "k").value == {"n": 9}

    def test_processes(self, store, memory, python):
        """Two processes that put the same key: no error, the last wins, both see it (B70)."""
        code = (
            "import sys\nfrom memkit_core import Memory, Scope\nfrom langchain_memkit import MemkitStore\n"
            "with Memory.open(sys.argv[1]) as memory:\n"
            "    store = MemkitStore(memory, scope=Scope.user('alice'))\n"
            "    for n in range(20):\n"
            "        store.put(('notes',), 'shared', {'by': sys.argv[2], 'n': n})\n"
            "        store.put(('notes', sys.argv[2]), str(n), {'n': n})\n"
        )
        with ThreadPoolExecutor(2) as pool:
            for done in pool.map(lambda name: python(code, memory.path, name), ("one", "two")):
                assert done.returncode == 0, done.stderr
        assert store.get(NOTES, "shared").value["n"] == 19
        assert len(store.search(NOTES, limit=99)) == 41
        assert store.list_namespaces() == [NOTES, ("notes", "one"), ("notes", "two")]


LABELS = st.sampled_from(["a", "b", "ab"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
TEXTS = st.sampled_from(["x", "y"])
VALUES = st.fixed_dictionaries({"t": TEXTS, "d": st.fixed_dictionaries({"e": TEXTS})})
WANTED = st.one_of(
    st.fixed_dictionaries({"t": TEXTS | st.fixed_dictionaries({"$ne": TEXTS})}),
    st.fixed_dictionaries({"d": st.fixed_dictionaries({"e": TEXTS})}),
)
PATHS = st.lists(LABELS | st.just("*"), max_size=2).map(tuple)
CONDITIONS = st.tuples(st.sampled_from(["prefix", "suffix"]), PATHS).map(MatchCondition._make)


def operations(kind, *fields):
    # Without the fields that are left at their defaults.
    return st.tuples(*fields).map(lambda values: kind(*values))


OPERATIONS = st.one_of(
    operations(PutOp, NAMESPACES, LABELS, st.none() | VALUES),
    operations(GetOp, NAMESPACES, LABELS),
    operations(SearchOp, NAMESPACES | st.just(()), st.none() | WANTED, st.just(100)),
    operations(
        ListNamespacesOp,
        st.lists(CONDITIONS, max_size=2).map(tuple),
        st.none() | st.sampled_from([1, 2]),
        st.sampled_from([1, 100]),
        st.sampled_from([0, 1]),
    ),
)


def plainly(result):
    """What a result says, whatever the order and the times."""
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    if isinstance(result, list) and result and isinstance(result[0], Item):
        return sorted(map(plainly, result), key=repr)
    return result


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(OPERATIONS, max_size=4), max_size=6))
def test_it_answers_as_langgraphs_own_store(store, batches):
    """Batch by batch the same as `InMemoryStore`, but for namespaces that hold nothing any longer."""
    store.items.clear()
    theirs = InMemoryStore()
    for batch in batches:
        # Theirs lists also what was deleted, or only asked for.
        for namespace in [name for name, held in theirs._data.items() if not held]:
            del theirs._data[namespace]
        listed = [theirs.batch([op])[0] for op in batch if isinstance(op, ListNamespacesOp)]
        expected = theirs.batch(batch)
        for place, op in enumerate(batch):
            if isinstance(op, ListNamespacesOp):
                expected[place] = listed.pop(0)
        assert [*map(plainly, store.batch(batch))] == [*map(plainly, expected)]


class Scripted(BaseChatModel):
    """Says these messages one after the other."""

    answers: list

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        return ChatResult(generations=[ChatGeneration(message=self.answers.pop(0))])


@tool
def save_note(text: str, runtime: ToolRuntime) -> str:
    """Keep a note."""
    runtime.store.put(NOTES, "n1", {"text": text})
    return "saved"


@tool
async def asave_note(text: str, runtime: ToolRuntime) -> str:
    """Keep a note."""
    await runtime.store.aput(NOTES, "n1", {"text": text})
    # A sync call on the loop's thread.
    return runtime.store.get(NOTES, "n1").value["text"]


class State(TypedDict):
    question: str
    answer: str


@pytest.mark.parametrize(
    ("chosen", "run"), [(save_note, "invoke"), (save_note, "ainvoke"), (asave_note, "ainvoke")]
)
async def test_in_the_tools_of_an_agent(store, chosen, run):
    """`create_agent(..., store=store)`: a tool reads and writes through `runtime.store`."""
    call = {"name": chosen.name, "args": {"text": "likes tea"}, "id": "c1"}
    model = Scripted(answers=[AIMessage("", tool_calls=[call]), AIMessage("done")])
    agent = create_agent(model, [chosen], store=store)
    said = {"messages": [("user", "Remember that I like tea")]}
    result = agent.invoke(said) if run == "invoke" else await agent.ainvoke(said)
    assert result["messages"][-1].text == "done"
    assert result["messages"][-2].text in ("saved", "likes tea")
    assert store.get(NOTES, "n1").value == {"text": "likes tea"}


@pytest.mark.parametrize("run", ["invoke", "ainvoke"])
async def test_in_the_nodes_of_a_graph(store, run):
    """`compile(store=store)`: a node reads and writes through `runtime.store`, over runs."""

    def sync_node(state: State, runtime: Runtime):
        assert isinstance(runtime.store, BaseStore)
        known = runtime.store.search(NOTES, query=state["question"], limit=1)
        runtime.store.put(NOTES, state["question"], {"text": state["question"]})
        return {"answer": known[0].value["text"] if known else ""}

    async def async_node(state: State, runtime: Runtime):
        known = await runtime.store.asearch(NOTES, query=state["question"], limit=1)
        await runtime.store.aput(NOTES, state["question"], {"text": state["question"]})
        return {"answer": known[0].value["text"] if known else ""}

    graph = StateGraph(State)
    graph.add_node("look", sync_node if run == "invoke" else async_node)
    graph.add_edge(START, "look")
    graph.add_edge("look", END)
    compiled = graph.compile(store=store)
    answers = []
    for question in ("green tea", "tea"):
        asked = {"question": question, "answer": ""}
        answers.append(
            (compiled.invoke(asked) if run == "invoke" else await compiled.ainvoke(asked))["answer"]
        )
    assert answers == ["", "green tea"]


def test_beside_the_middleware(store, memory, alice):
    """One memory serves both: the conversation goes to the session, the note to the store."""
    call = {"name": "save_note", "args": {"text": "likes tea"}, "id": "c1"}
    model = Scripted(answers=[AIMessage("", tool_calls=[call]), AIMessage("done")])
    session = Scope.session("s1", user="alice")
    middleware = [MemkitMiddleware(memory, scope=session)]
    agent = create_agent(model, [save_note], middleware=middleware, store=store)
    agent.invoke({"messages": [("user", "Remember that I like tea")]})
    assert store.get(NOTES, "n1").value == {"text": "likes tea"}
    assert len(memory.sessions.read(scope=session)) == 4
    assert len(memory.list_records(scope=alice)) == 0
