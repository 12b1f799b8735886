"""`MetadataFilters` mean in `MemkitVectorStore` what they mean in LlamaIndex's own reference."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from llamaindex_memkit import MemkitVectorStore
from memkit_core import FilterError, Memory, Scope

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
NAMES = itertools.count()

KEYS = ("a", "b", "a.b", 'a"b', "x') OR 1=1 --", "", "$", "doc_id", "_llama_index", "id")
NUMBERS = (0, 1, 1.0, 0.5, 2, 9, 10, -5, 2**53 + 1, 1e300, -0.0)
TEXTS = ("", "a", "A", "ab", "Ba", "10", "ä", "Ä", "İ", "' OR '1'='1", "d1")

SINGLES = (None, True, False, *NUMBERS, *TEXTS)
LISTS = ([], [True], [1], [1.0], [0, 1.5], ["a"], ["a", "ab"], ["a", 1], [None], [[1]], [["a"]], [[]])
DICTS = ({}, {"a": 1}, {"": None}, {"ab": {"a": 1}})
WANTED = (
    None,
    *NUMBERS,
    *TEXTS,
    [],
    ["a"],
    ["a", "ab"],
    ["", "10"],
    [0],
    [1],
    [1.0],
    [1, 10],
    [0, 1.5],
    [0.5],
)

metadata = st.dictionaries(st.sampled_from(KEYS), st.sampled_from((*SINGLES, *LISTS, *DICTS)), max_size=4)
wanted = st.sampled_from(WANTED)
leaves = st.builds(
    MetadataFilter, key=st.sampled_from(KEYS), value=wanted, operator=st.sampled_from(FilterOperator)
)
groups = st.builds(
    MetadataFilters,
    filters=st.lists(
        st.recursive(
            leaves,
            lambda parts: st.builds(
                MetadataFilters,
                filters=st.lists(parts, max_size=3),
                condition=st.sampled_from([None, *FilterCondition]),
            ),
            max_leaves=5,
        ),
        max_size=3,
    ),
    condition=st.sampled_from([None, *FilterCondition]),
)


def reference(found, leaf):
    """What LlamaIndex's own function says of one node and one condition; None when it raises."""
    try:
        return build_metadata_filter_fn(lambda _: found, MetadataFilters(filters=[leaf]))("")
    except TypeError:
        return None


needs_reference = pytest.mark.skipif(
    not reference({}, MetadataFilter(key="a", operator="!=", value="x")),
    reason="the reference of this llama-index-core is an older one, with another meaning",
)


def expected(found, filters):
    if isinstance(filters, MetadataFilter):
        return bool(reference(found, filters))
    parts = [expected(found, part) for part in filters.filters]
    if not parts:
        return True
    return {"and": all(parts), "or": any(parts), "not": not any(parts)}[(filters.condition or "and")]


def usable(filters):
    """Whether there is any kind of value that the reference can apply every condition to."""
    if isinstance(filters, MetadataFilters):
        return all(map(usable, filters.filters))
    kinds = (1, 1.5, True, "", "a", [], [1], ["a"], {}, {"a": 1})
    return any(reference({filters.key: kind}, filters) is not None for kind in kinds)


@pytest.fixture(scope="module", params=["memory", "file"])
def shared(request, tmp_path_factory):
    where = ":memory:" if request.param == "memory" else tmp_path_factory.mktemp("filters") / "m.db"
    with Memory.open(where) as memory:
        yield memory


@needs_reference
@pytest.mark.parametrize("operator", FilterOperator)
def test_each_condition_means_what_the_reference_means(shared, operator):
    """Each operator with each kind of value selects, of each kind of metadata, what the reference selects.

    A condition that it can apply to nothing is an error; a value that it cannot compare does not match.
    """
    store = MemkitVectorStore(memory=shared, scope=ALICE, name=f"{operator.value}")
    found = dict(enumerate(({}, *({"a": value} for value in (*SINGLES, *LISTS, *DICTS)))))
    store.add([TextNode(id_=str(i), metadata=own, embedding=[1, 0]) for i, own in found.items()])
    for value in WANTED:
        leaf = MetadataFilter(key="a", operator=operator, value=value)
        filters = MetadataFilters(filters=[leaf])
        if not usable(leaf):
            with pytest.raises(FilterError):
                store.get_nodes(filters=filters)
            continue
        selected = sorted(int(node.node_id) for node in store.get_nodes(filters=filters))
        assert selected == [i for i, own in found.items() if reference(own, leaf)], leaf


@needs_reference
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(metadata, st.booleans()), min_size=1, max_size=6), st.lists(groups, max_size=4))
def test_nested_filters_mean_what_the_reference_means(shared, nodes, asked):
    """`get_nodes`, `query` in every mode and `delete_nodes` select what the reference selects, nested too."""
    store = MemkitVectorStore(memory=shared, scope=ALICE, name=f"n{next(NAMES)}")
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d1")}
    store.add(
        TextNode(
            id_=str(i), text="owl", metadata=own, embedding=[1, i], relationships=source if sourced else {}
        )
        for i, (own, sourced) in enumerate(nodes)
    )
    visible = {str(i): {"doc_id": "d1", **own} if sourced else own for i, (own, sourced) in enumerate(nodes)}
    for filters in asked:
        query = VectorStoreQuery(
            query_embedding=[1, 0], query_str="owl", similarity_top_k=50, filters=filters
        )
        if not usable(filters):
            with pytest.raises(FilterError):
                store.get_nodes(filters=filters)
            with pytest.raises(FilterError):
                store.query(query)
            continue
        right = {one for one, found in visible.items() if expected(found, filters)}
        assert {node.node_id for node in store.get_nodes(filters=filters)} == right
        for mode in ("default", "hybrid", "text_search", "mmr"):
            query.mode = VectorStoreQueryMode(mode)
            assert set(store.query(query).ids) == right
        some = {"0", "1"} & right
        store.delete_nodes(["0", "1"], filters)
        visible = {one: found for one, found in visible.items() if one not in some}
        assert {node.node_id for node in store.get_nodes()} == set(visible)


@pytest.fixture
def hold(store):
    """Stores one node for each metadata, under its place as the id."""

    def put(*found):
        store.add(
            [TextNode(id_=str(i), text="x", metadata=one, embedding=[1, 0]) for i, one in enumerate(found)]
        )

    return put


@pytest.fixture
def select(store):
    """The ids that one condition, or any filters, select; checked on every way to ask."""

    def ids(*condition):
        filters = condition[0] if len(condition) == 1 else one(*condition)
        found = sorted(node.node_id for node in store.get_nodes(filters=filters))
        asked = VectorStoreQuery(query_embedding=[1, 0], similarity_top_k=100, filters=filters)
        assert sorted(store.query(asked).ids) == found
        return "".join(found)

    return ids


def one(key, operator, value):
    return MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])


def test_numbers_compare_as_numbers(hold, select):
    """Order is that of numbers; a number never equals text, and a missing key has no order (B38)."""
    hold(*({"n": n} for n in (2, 9, 10, 100, -5, 1.5, "10", True)), {})
    assert select("n", ">", 10) == "3"
    assert select("n", ">=", 10) == "23"
    assert select("n", "<", 10) == "01457"
    assert select("n", "<=", 10) == "012457"
    assert select("n", "==", 10) == "2"
    assert select("n", "==", "10") == "6"
    assert select("n", "!=", 10) == "01345678"
    assert select("n", "!=", "10") == "01234578"
    assert select("n", ">=", "10") == "6"


def test_keys_are_flat_and_exact(hold, select):
    """A dotted key is that key and never a path; nested values and lists compare whole (B40)."""
    hold({"pet": {"kind": "owl"}, "tags": ["a", "b"], "a.b": 1}, {"a": {"b": 1}, "pet.kind": "owl"})
    assert select("pet.kind", "==", "owl") == "1"
    assert select("a.b", "==", 1) == "0"
    assert select("tags", "==", ["a", "b"]) == "0"
    assert select("tags", "in", ["a"]) == ""
    assert select("tags", "any", ["a", "z"]) == "0"
    assert select("tags", "all", ["a", "z"]) == ""
    assert select("tags", "contains", "b") == "0"
    assert select("pet", "contains", "kind") == "0"
    two = [MetadataFilter(key="a.b", value=1), MetadataFilter(key="pet.kind", value="owl")]
    assert select(MetadataFilters(filters=two, condition="or")) == "01"


def test_hostile_keys_and_values_are_data(memory, hold, select):
    """A crafted key or value selects what has it, and never anybody else's nodes (B37)."""
    hostile = ["x') OR 1=1 --", 'a"b', "a[0]", "$", "user_id", "scope", "status", "metadata.x", "' OR '1'='1"]
    other = MemkitVectorStore(memory=memory, scope=BOB)
    other.add([TextNode(id_="bob", text="x", metadata=dict.fromkeys(hostile, "v"), embedding=[1, 0])])
    hold(*({key: "v", "value": key} for key in hostile))
    for i, key in enumerate(hostile):
        assert select(key, "==", "v") == str(i)
        assert select("value", "==", key) == str(i)
        assert select(key, "==", "' OR '1'='1") == ""
        assert len(select(key, "!=", "v")) == len(hostile) - 1
    assert [node.node_id for node in other.get_nodes()] == ["bob"]
    assert select("user_id", "==", "bob") == ""


def test_text_match(hold, select):
    """Text matches as a substring, by case or not; other values do not match."""
    hold({"t": "The Owl"}, {"t": "the owl"}, {"t": ["The Owl"]}, {"t": 7}, {})
    assert select("t", "text_match", "Owl") == "0"
    assert select("t", "text_match_insensitive", "OWL") == "01"
    assert select("t", "text_match", "he ow") == "1"
    nested = MetadataFilters(filters=[one("t", "text_match_insensitive", "OWL")], condition="not")
    assert select(nested) == "234"


def test_missing_null_and_empty(hold, select):
    """Missing and null match `!=`, `nin` and `is_empty`, and nothing else."""
    hold({}, {"k": None}, {"k": ""}, {"k": []}, {"k": 0})
    assert select("k", "is_empty", None) == "0123"
    assert select("k", "!=", "x") == "01234"
    assert select("k", "nin", ["x"]) == "01234"
    assert select("k", "nin", [0]) == "0123"
    assert select("k", "==", None) == ""
    assert select("k", "in", []) == ""


def test_bools_equal_numbers(hold, select):
    """LlamaIndex has no bool in a filter: 1 and 0 stand for them, in lists too."""
    hold({"b": True}, {"b": False}, {"b": 1}, {"b": "True"}, {"b": [True]})
    assert select("b", "==", 1) == "02"
    assert select("b", "!=", 1) == "134"
    assert select("b", "in", [0, 5]) == "1"
    assert select("b", "contains", 1) == "4"
    assert select("b", ">", 0) == "02"


def test_not_and_nesting(hold, select):
    """`not` means none of them; groups nest."""
    hold(*({"n": n, "odd": n % 2} for n in range(6)))
    low = [MetadataFilter(key="n", operator="<", value=2), MetadataFilter(key="n", operator=">", value=4)]
    assert select(MetadataFilters(filters=low, condition="not")) == "234"
    either = MetadataFilters(filters=low, condition="or")
    odd = MetadataFilter(key="odd", value=1)
    assert select(MetadataFilters(filters=[either, odd])) == "15"
    assert (
        select(MetadataFilters(filters=[MetadataFilters(filters=[either, odd])], condition="not")) == "0234"
    )


def test_source_keys(store, hold, select):
    """`doc_id`, `document_id` and `ref_doc_id` name the source; metadata of that name comes first."""
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d1")}
    hold({}, {"doc_id": "mine"})
    store.add([TextNode(id_="2", text="x", embedding=[1, 0], relationships=source)])
    store.add(
        [TextNode(id_="3", text="x", embedding=[1, 0], relationships=source, metadata={"doc_id": "mine"})]
    )
    assert select("doc_id", "==", "d1") == "2"
    assert select("ref_doc_id", "==", "d1") == select("document_id", "in", ["d1"]) == "23"
    assert select("doc_id", "==", "mine") == "13"
    assert select("doc_id", "!=", "d1") == "013"
    assert select("doc_id", "is_empty", None) == "0"
    assert select("doc_id", "text_match_insensitive", "D1") == "2"
    assert select("ref_doc_id", "==", "None") == ""


def test_long_lists(hold, select):
    """Lists longer than the store takes conditions are answered all the same."""
    hold({"tags": ["t7"]}, {"tags": "t7"}, {"n": 7}, {"tags": [f"t{i}" for i in range(1000)]})
    many = [f"t{i}" for i in range(1000)]
    assert select("tags", "any", many) == "013"
    assert select("tags", "all", many) == "3"
    assert select("tags", "in", many) == "1"
    assert select("n", "nin", list(range(1000))) == "013"


def test_replaced_characters(hold, select):
    """What cannot be stored is replaced alike in a node and in a filter."""
    hold({"k\0": "v\ud800", "list": ["\0"]})
    assert select("k\0", "==", "v\ud800") == "0"
    assert select("list", "contains", "\0") == "0"


@pytest.mark.parametrize(
    ("operator", "value"),
    [
        (">", None),
        ("in", 5),
        ("nin", None),
        ("any", 5),
        ("all", None),
        ("text_match", 5),
        ("text_match_insensitive", ["a"]),
    ],
)
def test_conditions_that_can_apply_to_nothing(store, operator, value):
    """An operator with a value it cannot have is a typed error, also in an empty store, never an empty answer."""
    with pytest.raises(FilterError, match=operator):
        store.get_nodes(filters=one("k", operator, value))
    with pytest.raises(FilterError, match=operator):
        store.query(VectorStoreQuery(query_embedding=[1, 0], filters=one("k", operator, value)))
    with pytest.raises(FilterError, match=operator):
        store.delete_nodes(filters=MetadataFilters(filters=[one("k", operator, value)], condition="not"))


@pytest.mark.parametrize("filters", [{"k": "v"}, [("k", "v")], "k", lambda _: True])
def test_what_is_no_filter(store, filters):
    """A dict, a list or a callable where filters belong is a typed error, never unfiltered (B44)."""
    with pytest.raises(FilterError, match="MetadataFilters"):
        store.get_nodes(filters=filters)
    with pytest.raises(FilterError, match="MetadataFilters"):
        store.query(VectorStoreQuery(query_embedding=[1, 0], filters=filters))
    with pytest.raises(FilterError, match="MetadataFilters"):
        store.delete_nodes(filters=filters)
