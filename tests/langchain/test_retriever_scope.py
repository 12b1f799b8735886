"""`MemkitRetriever`: whose memories it reads, and what it refuses rather than answer unfiltered."""

import itertools

import pytest
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError

from langchain_memkit import MemkitRetriever
from memkit_core import (
    FilterError,
    InvalidInputError,
    Scope,
    ScopeError,
)


def contents(documents):
    return [document.page_content for document in documents]


# ------------------------------------------------------------------ whose


def test_only_the_named_scopes_are_read(filled, alice, bob):
    """A3: each scope sees its own; several are read when several are named."""
    assert all(
        "Bob" not in c for c in contents(MemkitRetriever(memory=filled, scope=alice).invoke("tea milk"))
    )
    assert contents(MemkitRetriever(memory=filled, scope=bob).invoke("tea")) == ["Bob drinks tea with milk"]
    both = contents(MemkitRetriever(memory=filled, scope=(alice, bob)).invoke("tea"))
    assert len(both) == 4
    assert MemkitRetriever(memory=filled, scope=Scope.user("ali")).invoke("tea") == []


def test_a_retriever_without_a_scope_refuses_to_answer(filled):
    """A3: there is no default scope; without one the call raises, sync and async."""
    retriever = MemkitRetriever(memory=filled)
    with pytest.raises(ScopeError, match="scope is required"):
        retriever.invoke("tea")
    with pytest.raises(ScopeError):
        retriever.invoke("")
    with pytest.raises(ScopeError):
        MemkitRetriever(memory=filled, scope=[]).invoke("tea")


async def test_the_scope_can_be_given_per_call(filled, alice, bob):
    """H2: with `configurable_fields` each request names its scope, alone, in a chain, and asynchronously."""
    retriever = MemkitRetriever(memory=filled, k=1).configurable_fields(scope=ConfigurableField(id="scope"))
    chain = retriever | contents
    for_bob = {"configurable": {"scope": bob}}
    assert contents(retriever.invoke("tea milk", config=for_bob)) == ["Bob drinks tea with milk"]
    assert chain.invoke("tea milk", config=for_bob) == ["Bob drinks tea with milk"]
    assert await chain.ainvoke("tea milk", config=for_bob) == ["Bob drinks tea with milk"]
    assert chain.invoke("green tea", config={"configurable": {"scope": alice}}) == [
        "Alice drinks green tea in the morning"
    ]


@pytest.mark.parametrize(
    "configurable",
    [
        None,
        {},
        {"scop": Scope.user("bob")},
        {"user_id": "bob"},
        {"scope": None},
        {"scope": "bob"},
        {"scope": ["bob"]},
    ],
)
def test_a_missing_or_misspelt_key_raises(filled, configurable):
    """A3, B44: a request whose scope is missing, misspelt or no Scope raises, and nothing is answered."""
    retriever = MemkitRetriever(memory=filled).configurable_fields(scope=ConfigurableField(id="scope"))
    config = None if configurable is None else {"configurable": configurable}
    with pytest.raises(ScopeError):
        retriever.invoke("tea", config=config)
    with pytest.raises(ScopeError):
        (retriever | contents).invoke("tea", config=config)


@pytest.mark.parametrize("scope", ["alice", 7, ["alice"], {"kind": "user", "id": "alice"}, [None]])
def test_what_is_no_scope_is_refused_when_built(filled, scope):
    """A3: a scope is a typed value, never a bare id."""
    with pytest.raises(ScopeError, match=r"Scope\.user"):
        MemkitRetriever(memory=filled, scope=scope)


# ------------------------------------------------------------------ refused


@pytest.mark.parametrize("wrong", ["userid", "user_id", "filter", "top_k", "search_kwargs", "vectorstore"])
def test_an_unknown_field_is_refused_when_built(filled, alice, wrong):
    """B44: a misspelt option is an error, never an unfiltered answer."""
    with pytest.raises(ValidationError, match=wrong):
        MemkitRetriever(memory=filled, scope=alice, **{wrong: "x"})


@pytest.mark.parametrize("wrong", ["user_id", "filter", "filters", "scope", "filtr", "top_k"])
async def test_an_unknown_keyword_of_a_call_is_refused(retriever, wrong):
    """B44: a keyword that a call cannot honour raises a typed error, sync and async."""
    with pytest.raises(InvalidInputError, match=wrong):
        retriever.invoke("tea", **{wrong: "x"})
    with pytest.raises(InvalidInputError, match=wrong):
        await retriever.ainvoke("tea", **{wrong: "x"})


HOSTILE_KEYS = (
    "metadata.x') OR 1=1 --",
    'metadata."a\\"b"',
    "metadata.a.b",
    "metadata.a[0]",
    "$",
    "user_id",
    "scope",
    "scope_id",
)
HOSTILE_VALUES = ("' OR '1'='1", None, True, ["a"], {"eq": "' OR 1=1 --"}, {"ne": "x"}, {"exists": False})


def test_no_filter_reaches_another_users_rows(filled, alice):
    """B37: keys and values of filters are data; they are refused or match alice's rows alone."""
    refused = answered = 0
    for key, value in itertools.product(HOSTILE_KEYS, HOSTILE_VALUES):
        try:
            found = MemkitRetriever(memory=filled, scope=alice, filters={key: value}).invoke("tea milk")
        except FilterError:
            refused += 1
        else:
            answered += bool(found)
            assert all("Bob" not in content for content in contents(found)), (key, value)
    assert refused
    assert answered


def test_filters_follow_the_one_grammar(memory, alice):
    """B40: nested keys, whole values, lists and quoted keys match as documented."""
    memory.add(
        "owl note", scope=alice, metadata={"pet": {"kind": "owl", "age": 3}, "labels": ["a", "b"], "a.b": 1}
    )
    memory.add("owl other", scope=alice, metadata={"pet": {"kind": "cat"}})

    def ask(filters):
        return contents(MemkitRetriever(memory=memory, scope=alice, filters=filters).invoke("owl"))

    for filters in (
        {"metadata.pet.kind": "owl"},
        {"metadata.pet": {"eq": {"kind": "owl", "age": 3}}},
        {"metadata.labels": ["a", "b"]},
        {"metadata.labels": {"contains": "a"}},
        {'metadata."a.b"': 1},
        {"or": [{"metadata.pet.kind": "emu"}, {"metadata.pet.age": {"gte": 3}}]},
    ):
        assert ask(filters) == ["owl note"], filters
    for filters in (
        {"pet.kind": "owl"},
        {"metadata.pet": {"$foo": 1}},
        {"metadata.pet.age": {"approx": 3}},
        "owl",
        7,
    ):
        with pytest.raises(FilterError):
            ask(filters)


def test_a_filter_that_is_changed_later_changes_nothing(filled, alice):
    """B44: the filter of a retriever is the one it was built with."""
    filters = {"tags": {"contains": "diet"}}
    retriever = MemkitRetriever(memory=filled, scope=alice, filters=filters)
    filters.clear()
    assert len(retriever.invoke("tea")) == 1
