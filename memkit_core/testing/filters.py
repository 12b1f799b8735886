"""Filters mean on every read what `memkit_core.filters.matches` says."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core.filters import Filter, FilterLike, matches, metadata_key, parse_filter
from memkit_core.models import MemoryRecord, Status, Target
from memkit_core.ports import ListQuery, RecordStore
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.records import PROPERTY
from memkit_core.testing.samples import ALICE, BOB, INJECTIONS, NOW, embed_all, every_field, record
from memkit_core.testing.strategies import every_field_condition, filters, records

_SOME = st.lists(records(ALICE), max_size=6, unique_by=lambda one: one.id)
_OWL: dict[str, object] = {"pet": {"kind": "owl", "age": 3}, "tags": ["a", "b"], "a.b": 1}
_SCORES = (2, 9, 10, 100, -5, 1.5, "10", True, None)


class FiltersContract(ContractGuard):
    """One grammar, with one meaning on every read path."""

    @PROPERTY
    @given(batch=_SOME, where=filters())
    def test_a_listing_means_what_the_grammar_says(
        self, store: RecordStore, batch: list[MemoryRecord], where: Filter
    ) -> None:
        """A listing with any filter returns exactly the records that `matches` accepts."""
        store.records.delete_scope(ALICE)
        store.records.put(ALICE, batch)
        query = ListQuery(statuses=tuple(Status), where=where, limit=1000)
        expected = {one.id for one in batch if one.is_visible_at(NOW) and matches(where, one)}
        assert {one.id for one in store.records.list(ALICE, query, now=NOW)} == expected

    @PROPERTY
    @given(batch=_SOME, where=filters())
    def test_both_legs_mean_what_the_grammar_says(
        self, store: RecordStore, batch: list[MemoryRecord], where: Filter
    ) -> None:
        """Keyword search, exact scan and candidates return exactly the records that `matches` accepts."""
        store.records.delete_scope(ALICE)
        batch = [dataclasses.replace(one, content="same words") for one in batch]
        store.records.put(ALICE, batch)
        embed_all(store)
        target, points = Target(scope=ALICE), [one.point_id for one in batch]
        expected = {one.point_id for one in batch if one.is_visible_at(NOW) and matches(where, one)}
        hits = store.keywords.search(target, "words", where=where, now=NOW, limit=100)
        assert {hit.point_id for hit in hits} == expected
        assert set(store.vectors.scan(target, where=where, now=NOW)[0]) == expected
        found = store.records.candidates(target, points, radius=0, where=where, now=NOW)
        assert {one.point_id for one in found} == expected

    def test_every_operator_on_every_field(self, store: RecordStore) -> None:
        """Each field with each operator, over records with and without a value: what `matches` says."""
        rows = [record(ALICE, "empty"), every_field(ALICE, "full"), record(ALICE, "tagged", tags=("a", "b"))]
        store.records.put(ALICE, rows)
        for where in every_field_condition():
            query = ListQuery(statuses=tuple(Status), where=where)
            found = {one.id for one in store.records.list(ALICE, query, now=NOW)}
            assert found == {one.id for one in rows if matches(where, one)}, where

    @pytest.mark.parametrize("key", [*INJECTIONS, 'a"b', "a.b", "user_id", "scope", "", " "])
    def test_a_key_is_data(self, store: RecordStore, key: str) -> None:
        """A key with quotes, dots or SQL in it matches the metadata with that very key and nothing else."""
        store.records.put(ALICE, [record(ALICE, "own", metadata={key: "v"}), record(ALICE, "none")])
        store.records.put(BOB, [record(BOB, "bob", metadata={key: "v"})])
        for value, expected in (("v", ["own"]), ("' OR '1'='1", []), (True, []), (None, [])):
            assert self._found(store, {metadata_key(key): {"eq": value}}) == expected
        assert self._found(store, {metadata_key(key): {"in": ["v", "w"]}}) == ["own"]
        assert self._found(store, {metadata_key(key): {"exists": False}}) == ["none"]
        assert self._found(store, {"metadata.user_id2": {"ne": "x"}}) == ["none", "own"]

    @pytest.mark.parametrize(
        ("op", "value", "expected"),
        [
            ("gt", 10, [100]),
            ("gte", 10, [10, 100]),
            ("lt", 10, [2, 9, -5, 1.5]),
            ("lte", 10, [2, 9, 10, -5, 1.5]),
            ("eq", 10, [10]),
            ("eq", 10.0, [10]),
            ("eq", "10", ["10"]),
            ("gte", "10", ["10"]),
            ("lt", "2", ["10"]),
            ("eq", True, [True]),
            ("eq", 1, []),
            ("eq", None, [None]),
            ("ne", 10, [2, 9, 100, -5, 1.5, "10", True, None, "missing"]),
            ("nin", [10, "10"], [2, 9, 100, -5, 1.5, True, None, "missing"]),
            ("exists", True, list(_SCORES)),
            ("exists", False, ["missing"]),
        ],
    )
    def test_numbers_compare_as_numbers(
        self, store: RecordStore, op: str, value: object, expected: list[object]
    ) -> None:
        """9 is below 10 and 100 above; a number is no text and no bool; a missing key has one rule."""
        rows = [record(ALICE, repr(score), metadata={"score": score}) for score in _SCORES]
        store.records.put(ALICE, [*rows, record(ALICE, repr("missing"))])
        found = self._found(store, {"metadata.score": {op: value}})
        assert found == sorted(map(repr, expected))

    @pytest.mark.parametrize(
        ("where", "found"),
        [
            ({"metadata.pet.kind": "owl"}, True),
            ({"metadata.pet": {"eq": {"age": 3, "kind": "owl"}}}, True),
            ({"metadata.pet": {"eq": {"kind": "owl"}}}, False),
            ({"metadata.tags": ["a", "b"]}, True),
            ({"metadata.tags": ["b", "a"]}, False),
            ({"metadata.tags": {"in": ["a"]}}, True),
            ({"metadata.tags": {"contains": "a"}}, True),
            ({"metadata.tags": {"contains": "c"}}, False),
            ({"metadata.a.b": 1}, False),
            ({'metadata."a.b"': 1}, True),
            ({"or": [{"metadata.pet.kind": "cat"}, {"metadata.pet.age": {"gt": 2}}]}, True),
            ({"not": {"metadata.pet.kind": "owl"}}, False),
            ({}, True),
            ({"or": []}, False),
        ],
    )
    def test_nested_values(self, store: RecordStore, where: FilterLike, found: bool) -> None:  # noqa: FBT001 - a table
        """Dotted keys reach into nested values, quoted ones do not; lists and dicts compare whole."""
        store.records.put(ALICE, [record(ALICE, "owl", metadata=_OWL)])
        assert self._found(store, where) == (["owl"] if found else [])

    def test_a_filter_comes_before_the_limit(self, store: RecordStore) -> None:
        """The one match behind two hundred better rows is found with a limit of one."""
        store.records.put(ALICE, [record(ALICE, f"r{i}", "words") for i in range(200)])
        store.records.put(ALICE, [record(ALICE, "one", "words " + "and more text " * 9, tags=("rare",))])
        where = parse_filter({"tags": {"contains": "rare"}})
        (hit,) = store.keywords.search(Target(scope=ALICE), "words", where=where, now=NOW, limit=1)
        assert hit.point_id == record(ALICE, "one").point_id
        page = store.records.list(ALICE, ListQuery(where=where, limit=1), now=NOW)
        assert [one.id for one in page] == ["one"]

    def _found(self, store: RecordStore, where: FilterLike) -> list[str]:
        page = store.records.list(ALICE, ListQuery(where=parse_filter(where)), now=NOW)
        return sorted(one.id for one in page)
