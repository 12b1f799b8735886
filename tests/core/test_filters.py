"""The one filter grammar: what can be written, what is refused, and what it means."""

from datetime import UTC, datetime
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core.errors import FilterError, InvalidInputError
from memkit_core.filters import (
    FIELDS,
    MISSING,
    And,
    Condition,
    FieldKind,
    Not,
    Op,
    Or,
    condition,
    conjunction,
    evaluate,
    indexable,
    matches,
    metadata_key,
    parse_filter,
    parse_key,
)
from memkit_core.models import MemoryRecord, RecordType, Status
from memkit_core.ports import INDEXED_FIELDS
from memkit_core.scope import Scope
from memkit_core.testing import filters, records
from memkit_core.testing.samples import ALICE, INJECTIONS, NOW, record

SOME = records(ALICE)


def holds(where, **fields):
    return matches(parse_filter(where), record(ALICE, "x", **fields))


class TestTheDictForm:
    def test_several_keys_and_operators_all_hold(self):
        """Several keys, and several operators of one key, all have to hold."""
        where = {"importance": {"gte": 0.5, "lt": 0.8}, "tags": {"contains": "diet"}}
        assert holds(where, importance=0.5, tags=("diet",))
        assert not holds(where, importance=0.8, tags=("diet",))
        assert not holds(where, importance=0.5)

    def test_and_or_not(self):
        """`and`, `or` and `not` take filters, at any depth."""
        where = {"or": [{"type": "event"}, {"not": {"and": [{"pinned": True}, {"key": "k"}]}}]}
        assert holds(where, type=RecordType.EVENT, pinned=True, key="k")
        assert holds(where, pinned=True)
        assert not holds(where, pinned=True, key="k")

    def test_the_empty_ones(self):
        """No condition at all holds for everything; `or` of nothing for nothing."""
        assert parse_filter(None) is None
        assert holds({})
        assert holds({"and": []})
        assert not holds({"or": []})
        assert holds({"not": {"or": []}})

    def test_a_filter_is_returned_as_it_is(self):
        """A filter object is a filter already."""
        one = condition("type", "eq", "fact")
        for where in (one, And((one,)), Or((one,)), Not(one)):
            assert parse_filter(where) is where
        assert conjunction(None, one, None) is one
        assert conjunction() is None
        assert conjunction(one, Not(one)) == And((one, Not(one)))

    @pytest.mark.parametrize(
        "bad",
        [
            {"metadata.a": {"$foo": 1}},
            {"metadata.a": {"like": "x"}},
            {"metadata.a": {"EQ": 1}},
            {"metadata.a": {}},
            {"metadata.a": {"kind": "owl"}},
            {"unknown": 1},
            {"metadata": 1},
            {"metadata.": 1},
            {"metadata..a": 1},
            {"metadata.a.": 1},
            {"metadata.a b": 1},
            {"metadata.a[0]": 1},
            {'metadata."a': 1},
            {'metadata."a"b': 1},
            {"scope": "alice"},
            {"user_id": "alice"},
            {"Type": "fact"},
            {"": 1},
            {7: 1},
            {None: 1},
            {"and": {"type": "fact"}},
            {"or": "type"},
            {"or": [None]},
            {"not": None},
            {"not": [{"type": "fact"}]},
            {"$and": []},
            "type = 'fact'",
            ["type"],
            7,
        ],
        ids=repr,
    )
    def test_what_is_not_the_grammar_is_refused(self, bad):
        """An unknown operator, key or form raises, and never means an empty answer."""
        with pytest.raises(FilterError):
            parse_filter(bad)

    def test_the_message_helps(self):
        """An error lists the operators or the fields there are."""
        with pytest.raises(FilterError, match="nin"):
            condition("type", "$in", ["fact"])
        with pytest.raises(FilterError, match="created_at"):
            condition("created", "gt", 1)
        assert issubclass(FilterError, InvalidInputError)

    @pytest.mark.parametrize(
        ("key", "op", "value"),
        [
            ("importance", "eq", "high"),
            ("importance", "gt", True),
            ("importance", "contains", 1),
            ("importance", "in", 1),
            ("importance", "in", "0.5"),
            ("importance", "in", {"a": 1}),
            ("content", "eq", 7),
            ("content", "gt", None),
            ("content", "contains", None),
            ("pinned", "eq", 1),
            ("pinned", "eq", "true"),
            ("pinned", "contains", True),
            ("tags", "eq", 1),
            ("tags", "contains", None),
            ("created_at", "gt", "yesterday"),
            ("created_at", "gt", None),
            ("created_at", "in", [True]),
            ("created_at", "contains", 1),
            ("type", "exists", 1),
            ("metadata.a", "exists", "yes"),
            ("metadata.a", "gt", [1]),
            ("metadata.a", "gt", True),
            ("metadata.a", "eq", {1}),
            ("metadata.a", "eq", float("nan")),
            ("metadata.a", "eq", 2**70),
            ("metadata.a", "eq", "\0"),
            ("metadata.a", "in", [b"x"]),
        ],
    )
    def test_a_value_that_cannot_be_compared_is_refused(self, key, op, value):
        """A value that a field or operator can never match is an error, not an empty answer."""
        with pytest.raises(FilterError):
            condition(key, op, value)


class TestKeys:
    @given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
    def test_any_name_can_be_written(self, names):
        """`metadata_key` writes any names so that `parse_key` reads them back."""
        assert parse_key(metadata_key(*names)) == ("metadata", *names)

    @pytest.mark.parametrize("name", [*INJECTIONS, "a.b", "type", "metadata", ""])
    def test_a_name_reaches_the_value_of_that_name(self, name):
        """A metadata key never collides with a field, nor a dotted name with a nested one."""
        where = {metadata_key(name): "v"}
        assert holds(where, metadata={name: "v", "other": "w"})
        assert not holds(where, metadata={name + "x": "v"})
        assert not holds({"source": "v"} if name != "source" else {"agent_id": "v"}, metadata={name: "v"})

    def test_quoted_and_plain(self):
        """Plain names may stand without quotes; dots separate, quoted dots do not."""
        assert parse_key("metadata.a.b") == ("metadata", "a", "b")
        assert parse_key('metadata."a.b".c') == ("metadata", "a.b", "c")
        assert metadata_key("a", "b") == "metadata.a.b"
        with pytest.raises(FilterError):
            metadata_key()

    def test_every_field_is_one_of_a_record(self):
        """Every field a filter can name is an attribute of a record."""
        one = record(ALICE, "x")
        for name in FIELDS:
            assert hasattr(one, name)
            assert parse_key(name) == (name,)


class TestMeaning:
    @given(filters(), SOME)
    def test_not_is_the_opposite(self, where, one: MemoryRecord):
        """Every filter holds or does not: `not` turns it, `and` and `or` of both are false and true."""
        found = matches(where, one)
        assert matches(Not(where), one) is not found
        assert matches(And((where, Not(where))), one) is False
        assert matches(Or((where, Not(where))), one) is True

    @given(filters(), filters(), SOME)
    def test_de_morgan(self, a, b, one: MemoryRecord):
        """Not (a and b) is (not a) or (not b)."""
        assert matches(Not(And((a, b))), one) is matches(Or((Not(a), Not(b))), one)

    @given(filters(max_leaves=1), SOME)
    def test_operators_come_in_pairs(self, where, one: MemoryRecord):
        """`ne` is not `eq`, `nin` is not `in`, and `in` of one value is what `eq` is for plain values."""
        pairs = {Op.EQ: Op.NE, Op.IN: Op.NIN}
        if isinstance(where, Condition) and where.op in pairs:
            other = Condition(where.path, pairs[where.op], where.value)
            assert matches(other, one) is not matches(where, one)

    @pytest.mark.parametrize("name", [name for name, kind in FIELDS.items() if kind is FieldKind.TIME])
    def test_times_compare_as_moments(self, name):
        """A time is given in any form that names it; a missing one equals nothing."""
        fields = {name: NOW}
        for same in (NOW, NOW.isoformat(), NOW.timestamp(), int(NOW.timestamp() * 1000)):
            assert holds({name: same}, **fields)
            assert holds({name: {"gte": same}}, **fields)
            assert not holds({name: {"gt": same}}, **fields)
        assert holds({name: {"in": ["2026-01-15T12:00:00Z"]}}, **fields)
        if name not in ("created_at", "updated_at"):
            assert not holds({name: {"lt": datetime(9000, 1, 1, tzinfo=UTC)}})
            assert holds({name: {"ne": NOW}})
            assert holds({name: {"exists": False}})

    def test_a_missing_key(self):
        """A missing key matches `ne`, `nin` and `exists: False`, and nothing else; null is there."""
        for where, missing, null in (
            ({"ne": 1}, True, True),
            ({"nin": [1]}, True, True),
            ({"exists": False}, True, False),
            ({"exists": True}, False, True),
            ({"eq": None}, False, True),
            ({"ne": None}, True, False),
            ({"in": [None]}, False, True),
            ({"nin": [None]}, True, False),
            ({"lt": 1}, False, False),
            ({"contains": None}, False, False),
        ):
            assert holds({"metadata.a": where}) is missing, where
            assert holds({"metadata.a": where}, metadata={"a": None}) is null, where
            assert holds({"metadata.a.b": where}, metadata={"a": 1}) is missing, where

    def test_enums_stand_for_their_values(self):
        """A type, a status, and any text enum stand for their value."""

        class Mine(StrEnum):
            FACT = "fact"

        assert holds({"type": RecordType.FACT, "status": {"in": [Status.ACTIVE]}})
        assert holds({"type": Mine.FACT})

    def test_text_is_ordered_by_code_point(self):
        """Text compares by code point, exactly: case and accents matter."""
        assert holds({"content": {"gt": "Z"}}, content="a")
        assert holds({"content": {"gt": "\uffff"}}, content="🦉")
        assert not holds({"content": "A"}, content="a")
        assert not holds({"content": {"contains": "É"}}, content="café")
        assert holds({"content": {"contains": ""}}, content="x")

    def test_a_list_has_elements_and_is_a_value(self):
        """`contains`, `in` and `nin` look at elements, `eq` at the whole list, in order."""
        fields = {"tags": ("a", "b"), "metadata": {"l": [1, [2], "x"]}}
        for where, found in (
            ({"tags": {"contains": "a"}}, True),
            ({"tags": {"contains": "A"}}, True),
            ({"tags": {"in": ["b", "z"]}}, True),
            ({"tags": {"nin": ["b", "z"]}}, False),
            ({"tags": ["a", "b"]}, True),
            ({"tags": ["b", "a"]}, False),
            ({"metadata.l": {"contains": [2]}}, True),
            ({"metadata.l": {"contains": 2}}, False),
            ({"metadata.l": {"in": [1]}}, True),
            ({"metadata.l": {"contains": True}}, False),
        ):
            assert holds(where, **fields) is found, where

    @pytest.mark.parametrize(
        "where",
        [
            {"tags": "a"},
            {"tags": {"contains": ["a"]}},
            {"type": "preferense"},
            {"type": "Preference"},
            {"status": {"in": ["activ"]}},
            {"origin": {"ne": "nobody"}},
            {"metadata.\ud800": 1},
        ],
    )
    def test_what_could_never_match_is_an_error(self, where):
        """A value that the field can never hold is refused instead of answered with nothing."""
        with pytest.raises(FilterError):
            parse_filter(where)

    def test_a_filter_has_a_largest_size(self):
        """More than 500 conditions, or nesting deeper than 32, is one typed error on every backend."""
        deep = {"type": "fact"}
        for _ in range(40):
            deep = {"not": deep}
        for too_large in (deep, {"or": [{"version": n} for n in range(501)]}):
            with pytest.raises(FilterError, match="at most"):
                parse_filter(too_large)
        assert parse_filter({"or": [{"version": n} for n in range(500)]}) is not None

    def test_a_filter_is_no_way_out_of_a_record(self):
        """Only the listed fields can be named: no attribute, no scope, no method."""
        for key in ("__class__", "scope", "scope.id", "point_id", "index_text", "metadata.__class__.x"):
            if key.startswith("metadata"):
                assert not holds({key: {"exists": True}})
            else:
                with pytest.raises(FilterError):
                    parse_filter({key: 1})

    def test_evaluate_asks_for_paths(self):
        """`evaluate` asks for each path it needs and takes `MISSING` for no value."""
        where = parse_filter({"metadata.a.b": 1, "type": {"exists": False}})
        asked = []
        assert evaluate(where, lambda path: asked.append(path) or (1 if len(path) > 1 else MISSING))
        assert asked == [("metadata", "a", "b"), ("type",)]


def test_what_an_index_can_decide():
    """An index decides its own fields, nested too, but never metadata, text or a tag list as a whole."""
    for where, decided in (
        ({"type": "fact", "tags": {"contains": "a"}}, True),
        ({"or": [{"created_at": {"gt": 1}}, {"not": {"status": "active"}}]}, True),
        ({"tags": ["a"]}, False),
        ({"tags": {"ne": ["a"]}}, False),
        ({"tags": {"gt": "a"}}, False),
        ({"metadata.type": "fact"}, False),
        ({"or": [{"type": "fact"}, {"content": "x"}]}, False),
        ({"not": {"key": "k"}}, False),
    ):
        assert indexable(parse_filter(where), INDEXED_FIELDS) is decided, where


def test_a_filter_is_a_value():
    """Parsing keeps nothing of the caller's objects and changes none of them."""
    given_list = ["a"]
    where = {"metadata.a": {"in": given_list}}
    parsed = parse_filter(where)
    given_list.append("b")
    assert parsed == Condition(("metadata", "a"), Op.IN, ["a"])
    assert where == {"metadata.a": {"in": ["a", "b"]}}
    assert matches(parsed, record(Scope.user("u"), "x", metadata={"a": "a"}))
