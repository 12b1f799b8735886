"""H2, C9: `filter=` of `MemkitVectorStore`: the one grammar of memkit, on the keys of the metadata."""

from datetime import datetime

import pytest

from langchain_memkit import MemkitVectorStore
from memkit_core import FilterError, Memory, Scope, parse_filter


def contents(documents):
    return [document.page_content for document in documents]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """Documents whose `n` is a number, a text, a bool, or not there, beside nested and odd keys."""
    path = tmp_path_factory.mktemp("numbered") / "memory.db"
    with Memory.open(path) as memory:
        for scope in (Scope.user("alice"), Scope.user("bob")):
            _fill(MemkitVectorStore(memory=memory, scope=scope))
        yield MemkitVectorStore(memory=memory, scope=Scope.user("alice"))


def _fill(store):
    values = [2, 9, 10, 100, -5, 1.5, "10", True]
    store.add_texts([f"owl {value!r}" for value in values], [{"n": value} for value in values])
    odd = {
        "pet": {"kind": "owl", "age": 3}, "tags": ["a", "b"], "a.b": 1, "my key": 2, "$ref": 3,
        "x') OR 1=1 --": 4, 'a"b': 5, "a[0]": 6, "metadata": {"source": 7}, "and": 8, "id": "mine", "user_id": "bob",
    }  # fmt: skip
    store.add_texts(["owl odd"], [odd])


def matching(store, given):
    found = contents(store.similarity_search("owl", k=99, filter=given))
    assert sorted(contents(store.similarity_search("owl", k=99, filter=given, mode="keyword"))) == sorted(
        found
    )
    assert sorted(contents(store.max_marginal_relevance_search("owl", k=99, filter=given))) == sorted(found)
    assert sorted(
        contents(d for d, _ in store.similarity_search_with_score("owl", k=99, filter=given))
    ) == sorted(found)
    return sorted(text.removeprefix("owl ") for text in found)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"n": {"gte": 10}}, ["10", "100"]),
        ({"n": {"gt": 9, "lt": 100}}, ["10"]),
        ({"n": {"lte": 1.5}}, ["-5", "1.5"]),
        ({"n": 10}, ["10"]),
        ({"n": 10.0}, ["10"]),
        ({"n": "10"}, ["'10'"]),
        ({"n": {"gte": "10"}}, ["'10'"]),
        ({"n": True}, ["True"]),
        ({"n": {"in": [2, 9]}}, ["2", "9"]),
        ({"n": {"exists": False}}, ["odd"]),
        ({"n": {"nin": [2, 9, 10, 100, -5, 1.5, True]}}, ["'10'", "odd"]),
    ],
)
def test_numbers_compare_as_numbers(numbered, given, expected):
    """B38: numeric order for numbers; a number never equals a text; a missing key matches ne and nin only."""
    assert matching(numbered, given) == expected


@pytest.mark.parametrize(
    "given",
    [
        {"pet.kind": "owl"},
        {"metadata.pet.kind": "owl"},
        {"pet": {"eq": {"kind": "owl", "age": 3}}},
        {"tags": ["a", "b"]},
        {"tags": {"in": ["a"]}},
        {"tags": {"contains": "b"}},
        {'"a.b"': 1},
        {'metadata."a.b"': 1},
        {"my key": 2},
        {"metadata.$ref": 3},
        {"x') OR 1=1 --": 4},
        {'a"b': 5},
        {"a[0]": 6},
        {"metadata.metadata.source": 7},
        {"metadata.and": 8},
        {"id": "mine"},
        {"user_id": "bob"},
        {"or": [{"n": {"gt": 1000}}, {"pet.age": 3}]},
        {"and": [{"user_id": "bob"}, {"not": {"n": 10}}]},
        parse_filter({"metadata.user_id": "bob", "created_at": {"gt": datetime(2020, 1, 1)}}),  # noqa: DTZ001 - naive on purpose
    ],
)
def test_keys_are_metadata_keys(numbered, given):
    """C9, B37, B40: a key names metadata, nested, odd or like a field of ours, and is data, never SQL."""
    assert matching(numbered, given) == ["odd"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a.b": 1}, ["both", "flat"]),
        ({"a.b": 2}, ["nested"]),
        ({"a.b": {"in": [1, 2]}}, ["both", "flat", "nested"]),
        ({"a.b": {"ne": 1}}, ["neither", "nested"]),
        ({"a.b": {"exists": False}}, ["neither"]),
        ({"not": {"a.b": {"gte": 1}}}, ["neither"]),
        ({"a.b": 1, "n": 3}, ["both"]),
        ({'"a.b"': 1}, ["both", "flat"]),
        ({"metadata.a.b": 2}, ["both", "nested"]),
    ],
    ids=str,
)
def test_a_key_with_a_dot(store, given, expected):
    """C9: a dotted key is the key of that name where a document has it, else a path; never silently nothing."""
    metadatas = {
        "flat": {"a.b": 1}, "nested": {"a": {"b": 2}}, "both": {"a.b": 1, "a": {"b": 2}, "n": 3}, "neither": {"a": 1},
    }  # fmt: skip
    store.add_texts([f"owl {name}" for name in metadatas], metadatas.values())
    assert matching(store, given) == expected


@pytest.mark.parametrize("value", ["' OR '1'='1", None, ["bob"], "bob' --"])
def test_values_are_data(numbered, value):
    """B37: no value of a filter widens the answer."""
    assert matching(numbered, {"user_id": value}) == []


@pytest.mark.parametrize(
    "given",
    [
        {"n": {"$gte": 10}},
        {"$and": [{"n": 10}]},
        {"OR": [{"n": 10}]},
        {"pet": {"kind": "owl"}},
        {"n": {"like": "1"}},
        {"n": {}},
        {"a b.c": 1},
        {7: 1},
        {"n": float("nan")},
        {"n": 1, "metadata.n": 2},
        {"and": {"n": 10}},
        "n == 10",
        lambda document: True,
        [("n", 10)],
    ],
)
async def test_what_is_no_filter_raises(numbered, given):
    """B40, B44: an unknown operator, key form or kind of filter is a typed error, never an empty list."""
    for search in (numbered.similarity_search, numbered.similarity_search_with_score, numbered.delete):
        with pytest.raises(FilterError):
            search(**({} if search == numbered.delete else {"query": "owl"}), filter=given)
    for search in (numbered.asimilarity_search, numbered.amax_marginal_relevance_search):
        with pytest.raises(FilterError):
            await search("owl", filter=given)


def test_a_filter_holds_before_the_cut(store):
    """C9: of many nearer documents the few that match are found; the caller's dict is not changed."""
    store.add_texts([f"cat {i}" for i in range(60)], [{"n": i} for i in range(60)])
    given = {"or": [{"n": 58}, {"metadata.n": 59}]}
    assert sorted(contents(store.similarity_search("cat 1", k=2, filter=given))) == ["cat 58", "cat 59"]
    assert given == {"or": [{"n": 58}, {"metadata.n": 59}]}
    deep = {"n": 1}
    for _ in range(2000):
        deep = {"not": deep}
    with pytest.raises(FilterError, match="nested"):
        store.similarity_search("cat", filter=deep)
