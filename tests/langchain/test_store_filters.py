"""The `filter=` of `MemkitStore`: one meaning, on every store, for whatever stands in values and filters."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import PutOp

from langchain_memkit import MemkitStore
from langchain_memkit.store_filters import value_filter
from memkit_core import FilterError, Memory, Scope
from memkit_core.filters import matches
from memkit_core.testing.samples import record

ALICE = Scope.user("alice")
NOTES = ("notes",)


@pytest.fixture(scope="module", params=["in memory", "in a file"])
def store(request, tmp_path_factory):
    path = ":memory:" if request.param == "in memory" else tmp_path_factory.mktemp("f") / "m.db"
    with Memory.open(path) as memory:
        yield MemkitStore(memory, scope=ALICE)


@pytest.fixture
def among(store):
    """Which of these values a filter finds, by a search with a query and without one."""

    def ask(values, wanted):
        store.items.clear()
        store.batch([PutOp(NOTES, str(name), value) for name, value in values.items()])
        found = {one.key for one in store.search(NOTES, filter=wanted, limit=1000)}
        assert {one.key for one in store.search(NOTES, filter=wanted, query="x", limit=1000)} == found
        return found

    return ask


SCORES = {
    "2": 2, "9": 9, "10": 10, "10.0": 10.0, "100": 100, "-5": -5, "1.5": 1.5, "text": "10", "true": True, "null": None, "list": [10], "dict": {"a": 10},
}  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"$gt": 10}, {"100"}),
        ({"$gte": 10}, {"10", "10.0", "100"}),
        ({"$lt": 10}, {"2", "9", "-5", "1.5"}),
        ({"$lte": 10}, {"2", "9", "10", "10.0", "-5", "1.5"}),
        ({"$eq": 10}, {"10", "10.0"}),
        (10, {"10", "10.0"}),
        ({"$ne": 10}, {*SCORES, "missing"} - {"10", "10.0"}),
        ({"$gt": 1, "$lt": 10}, {"2", "9", "1.5"}),
        ({"$gte": "10"}, {"text"}),
        ({"$lt": "9"}, {"text"}),
        ("10", {"text"}),
        (True, {"true"}),
        (1, set()),
        (None, {"null"}),
        ({"$ne": None}, {*SCORES, "missing"} - {"null"}),
        ([10], {"list"}),
        ([10.0], {"list"}),
        ({"$eq": [10]}, {"list"}),
        ({"$ne": [10.0]}, {*SCORES, "missing"} - {"list"}),
        ({"a": 10}, {"dict"}),
        ({"$eq": {"a": 10}}, {"dict"}),
        ({"a": {"$ne": 3}}, {"dict"}),
        ({}, {"dict"}),
        ([], set()),
        ({"$lt": math.inf}, {"2", "9", "10", "10.0", "100", "-5", "1.5"}),
        ({"$gt": -math.inf, "$lte": 10**100}, {"2", "9", "10", "10.0", "100", "-5", "1.5"}),
        ({"$eq": math.nan}, set()),
        ({"$gt": math.nan}, set()),
        ({"$ne": math.nan}, {*SCORES, "missing"}),
        (2**70, set()),
        ("a\0b", set()),
        ("half \ud83d", set()),
        ({"$ne": "a\0b"}, {*SCORES, "missing"}),
    ],
)  # fmt: skip
def test_numbers_texts_and_what_is_missing(among, wanted, found):
    """Numbers compare as numbers, texts as texts, and what is missing or of another kind does not match (B38)."""
    values = {name: {"score": score} for name, score in SCORES.items()} | {"missing": {"other": 10}}
    assert among(values, {"score": wanted}) == found


VALUE = {
    "pet": {"kind": "owl", "age": 3, "home": {"city": "Oslo"}},
    "tags": ["a", "b"],
    "a.b": 1,
    "a": {"b": 2},
    "n": None,
}


@pytest.mark.parametrize(
    "wanted",
    [
        {"pet.kind": "owl"}, {"pet": {"kind": "owl"}}, {"pet": {"kind": "owl", "age": {"$gt": 2}}}, {"pet.home.city": "Oslo"},
        {"pet": {"home": {"city": "Oslo"}}}, {"pet": {"home.city": "Oslo"}}, {"tags": ["a", "b"]}, {"tags": ("a", "b")},
        {"tags": ["a", {"$ne": "c"}]}, {"a.b": 1}, {"a": {"b": 2}}, {"n": None}, {"pet": {"$eq": VALUE["pet"]}}, {"pet": {}},
        {"pet.kind": {"$ne": "cat"}}, {"missing": {"$ne": 1}}, {"missing.deep": {"$ne": 1}}, {"pet": {"missing": {"$ne": 1}}},
        {"pet.kind": "owl", "tags": ["a", "b"], "a.b": {"$lt": 2}}, {},
    ],
)  # fmt: skip
def test_what_matches_a_nested_value(among, wanted):
    """Dotted keys and nested dicts say the same; a key that has a dot is meant first (B40)."""
    assert among({"it": VALUE}, wanted) == {"it"}


@pytest.mark.parametrize(
    "wanted",
    [
        {"pet.kind": "cat"}, {"pet": {"kind": "owl", "age": 4}}, {"pet": "owl"}, {"pet.kind.deeper": "owl"}, {"tags": ["b", "a"]},
        {"tags": ["a"]}, {"tags": "a"}, {"tags": {"0": "a"}}, {"a.b": 2}, {"a": {"b": 1}}, {"missing": None}, {"pet": {"$eq": {"kind": "owl"}}},
        {"missing": {"deep": {"$ne": 1}}}, {"tags": {"deep": {"$ne": 1}}}, {"n": {"deep": {"$ne": 1}}}, {"n": {}}, {"tags": ["a", {"$gt": 1}]},
        {"PET.kind": "owl"}, {"value": {"pet": {"kind": "owl"}}}, {"metadata.value.pet.kind": "owl"}, {"created_at": {"$gt": 0}}, {"pet.": "owl"},
        {".pet": {}}, {"": "owl"},
    ],
)  # fmt: skip
def test_what_does_not_match_a_nested_value(among, wanted):
    """Exactly what is asked, in the value and nowhere else."""
    assert among({"it": VALUE}, wanted) == set()


HOSTILE = [
    "x') OR 1=1 --",
    'a"b',
    "a[0]",
    "$.x",
    "user_id",
    "' OR '1'='1",
    "a%",
    "a-b",
    "1a",
    "é",
    "x\\",
    "metadata",
    "or",
    "in",
]


@pytest.mark.parametrize("key", [key for key in HOSTILE if not key.startswith("$")])
def test_keys_are_data(among, key):
    """A key with quotes, brackets or SQL in it is the key of that name and nothing else (B37)."""
    values = {"with": {key: "it"}, "without": {"other": "it"}, "deep": {"in": {key: "it"}}}
    assert among(values, {key: "it"}) == {"with"}
    assert among(values, {"in": {key: "it"}}) == {"deep"}
    assert among(values, {f"in.{key}": "it"}) == {"deep"}
    for wanted in HOSTILE:
        assert among(values, {key: wanted}) == set()
    assert among({"it": {"k": key}}, {"k": key}) == {"it"}


class Colour(StrEnum):
    RED = "red"


class Level(Enum):
    LOW = 1


def test_enums_stand_for_their_values(among):
    """As they are written in programs."""
    values = {"it": {"colour": "red", "level": 1}}
    assert among(values, {"colour": Colour.RED, "level": Level.LOW}) == {"it"}


@pytest.mark.parametrize(
    "wanted",
    [
        "a", 5, ["a"], {1: 2}, {"$gt": 1}, {"$or": [{"a": 1}]}, {"a": {"$in": [1]}}, {"a": {"$foo": 1}}, {"a": {"$gt": 1, "b": 2}},
        {"a": {"b": {"$exists": True}}}, {"a": {"$gt": None}}, {"a": {"$lt": True}}, {"a": {"$gt": [1]}}, {"a": {"$gte": {"b": 1}}},
        {"a": {1}}, {"a": b"x"}, {"a": datetime(2026, 1, 1, tzinfo=UTC)}, {"a": Decimal(1)}, {"a": object()}, {"a": [{1}]},
        {"a": {1: 2}}, {"half \ud83d": 1}, {"a": {"half \ud83d": 1}}, {str(n): n for n in range(600)},
    ],
)  # fmt: skip
def test_what_could_never_match_is_refused(store, wanted):
    """An unknown operator or key form is a typed error and a `ValueError`, never an empty list (B40, B44)."""
    with pytest.raises(FilterError) as caught:
        store.search((), filter=wanted)
    assert isinstance(caught.value, ValueError)
    str(caught.value).encode()


@pytest.mark.parametrize(
    "build", [lambda inner: {"a": inner}, lambda inner: [inner], lambda inner: {"$eq": inner}]
)
def test_nesting_has_an_end(store, build):
    """Beyond it a typed error, not a stack overflow."""
    wanted = 1
    for _ in range(2000):
        wanted = build(wanted)
    with pytest.raises(FilterError, match="nested"):
        store.search((), filter={"a": wanted})


def test_filters_come_before_limit_and_offset(store):
    """The only match among many is found by any page of one, however it has to be decided (C9)."""
    store.items.clear()
    store.batch(
        [PutOp(NOTES, f"k{n}", {"n": n, "list": [n, {"m": n}], "text": "same words"}) for n in range(300)]
    )
    for wanted in ({"n": 3}, {"list": [3, {"m": 3}]}, {"n": {"$gte": 3, "$lt": 4}}):
        for query in (None, "words"):
            assert [one.key for one in store.search(NOTES, filter=wanted, query=query, limit=1)] == ["k3"]
            assert store.search(NOTES, filter=wanted, query=query, limit=1, offset=1) == []
    wanted = {"list": [{"$gte": 290}, {"m": {"$ne": 295}}]}
    pages = [store.search(NOTES, filter=wanted, limit=4, offset=offset) for offset in (0, 4, 8, 12)]
    assert [len(page) for page in pages] == [4, 4, 1, 0]
    assert [one.value["n"] for page in pages for one in page] == [299, 298, 297, 296, 294, 293, 292, 291, 290]


# ------------------------------------------------------------------------------- against a plain model

NAMES = st.sampled_from(["a", "b", "a.b", "b.a", "$", "c'\""])
SCALARS = st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, -2.5, 2**53, "1", "a", "", "é"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)
ITEMS = st.dictionaries(NAMES, VALUES, max_size=3)
ORDERED = st.sampled_from([0, 1, 1.5, math.inf, -math.inf, 2**70, "a", ""])
OPERATORS = st.dictionaries(
    st.sampled_from(["$eq", "$ne"]), VALUES, min_size=1, max_size=2
) | st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), ORDERED, min_size=1, max_size=2)
KEYS = NAMES.filter(lambda name: not name.startswith("$"))
FILTERS = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS | OPERATORS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=2,
)
NONE = object()


def same(left, right):
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def operated(found, name, wanted):
    if name in ("$eq", "$ne"):
        return (found is not NONE and same(found, wanted)) is (name == "$eq")
    if isinstance(found, bool) or not isinstance(found, str if isinstance(wanted, str) else int | float):
        return False
    return {"$gt": found > wanted, "$gte": found >= wanted, "$lt": found < wanted, "$lte": found <= wanted}[
        name
    ]


def meant(found, wanted):
    """What the documentation says, in plain Python."""
    if isinstance(wanted, dict):
        if any(key.startswith("$") for key in wanted):
            return all(operated(found, name, one) for name, one in wanted.items())
        return isinstance(found, dict) and all(meant(inside(found, key), one) for key, one in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(meant, found, wanted))
    return found is not NONE and same(found, wanted)


def inside(found, key):
    if key in found:
        return found[key]
    for name in key.split("."):
        if not isinstance(found, dict) or name not in found:
            return NONE
        found = found[name]
    return found


@settings(max_examples=300, deadline=None)
@given(ITEMS, FILTERS)
def test_the_translation_says_what_is_meant(value, wanted):
    """What the store decides and what is decided afterwards together are the documented meaning."""
    asked = value_filter(wanted)
    if asked is None:
        assert meant(value, wanted)
        return
    stored = record(ALICE, "x", metadata={"value": value})
    by_store = matches(asked.where, stored)
    assert (by_store and (asked.matching is None or asked.matching(value))) is meant(value, wanted)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ITEMS, min_size=1, max_size=6), FILTERS)
def test_every_store_finds_the_same(among, values, wanted):
    """A search gives exactly the items that the documentation says, in memory as in a file."""
    named = {str(number): value for number, value in enumerate(values)}
    assert among(named, wanted) == {name for name, value in named.items() if meant(value, wanted)}


LABELS = st.sampled_from(["a", "b", "ab", 'a","b', "a]", "-", ",", "é"])
SPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.tuples(SPACES, LABELS), max_size=8), st.lists(LABELS, max_size=3).map(tuple))
def test_a_prefix_is_whole_labels(store, names, prefix):
    """Searches and namespaces below a prefix are those whose first labels it is."""
    store.items.clear()
    store.batch([PutOp(namespace, key, {}) for namespace, key in names])
    expected = {name for name in names if name[0][: len(prefix)] == prefix}
    assert {(one.namespace, one.key) for one in store.search(prefix, limit=99)} == expected
    assert store.list_namespaces(prefix=prefix) == sorted({namespace for namespace, _ in expected})
