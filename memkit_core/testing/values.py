"""JSON values with versions: what notes and run states are kept as."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from memkit_core.errors import ClosedError, ConflictError
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import NOTES, RUNS, DeleteReceipt, StoredValue
from memkit_core.ports import RecordStore
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    HOSTILE_IDS,
    NOW,
    TALK,
    append,
    later,
    message,
    record,
    stored_kinds,
)

_JSON: tuple[JsonValue, ...] = (
    None, True, 1, 1.0, "", 'quo"te \' \u2028 👩‍👧', [], {}, {"z": [1, {"a": None}], "a": {"b": [[]]}},
)  # fmt: skip


class ValuesContract(ContractGuard):
    """`RecordStore.values`."""

    durable: bool

    def reopen(self, store: RecordStore) -> RecordStore:
        """See `LifecycleContract.reopen`."""
        raise NotImplementedError

    @pytest.mark.parametrize("value", _JSON)
    def test_every_json_value_comes_back(self, store: RecordStore, value: JsonValue) -> None:
        """A value comes back as it was, types and key order included, with what it is listed by."""
        stored = store.values.put(TALK, RUNS, "k", value, label="l", now=NOW)
        assert stored == StoredValue(
            key="k", value=value, label="l", version=1, created_at=NOW, updated_at=NOW
        )
        found = store.values.get(TALK, RUNS, "k")
        assert found == stored
        assert repr(found) == repr(stored)

    def test_what_is_given_and_returned_is_a_copy(self, store: RecordStore) -> None:
        """Changing what was put or got changes nothing that is stored."""
        given: dict[str, JsonValue] = {"a": [1]}
        returned = store.values.put(ALICE, NOTES, "k", given, now=NOW)
        read = store.values.get(ALICE, NOTES, "k")
        assert read is not None
        for value in (given, returned.value, read.value):
            assert isinstance(value, dict)
            value["a"] = "changed"
        found = store.values.get(ALICE, NOTES, "k")
        assert found is not None
        assert found.value == {"a": [1]}

    def test_versions_are_kept(self, store: RecordStore) -> None:
        """Each writing is a version; as many earlier ones are kept as asked for, oldest first."""
        for n in range(5):
            store.values.put(ALICE, NOTES, "k", n, label=f"l{n}", keep=2, now=later(hours=n))
        history = store.values.history(ALICE, NOTES, "k")
        assert [(one.version, one.value, one.label, one.updated_at) for one in history] == [
            (n + 1, n, f"l{n}", later(hours=n)) for n in (2, 3, 4)
        ]
        assert {one.created_at for one in history} == {NOW}
        assert history[-1] == store.values.get(ALICE, NOTES, "k")
        store.values.put(ALICE, NOTES, "k", 5, keep=0, now=NOW)
        assert [one.value for one in store.values.history(ALICE, NOTES, "k")] == [5]
        assert store.values.history(ALICE, NOTES, "unknown") == []

    def test_a_clock_set_back_moves_no_version_back(self, store: RecordStore) -> None:
        """A later version never is older than the one before."""
        store.values.put(ALICE, NOTES, "k", 1, now=NOW)
        assert store.values.put(ALICE, NOTES, "k", 2, now=later(hours=-1)).updated_at == NOW

    def test_an_unexpected_version_is_a_conflict(self, store: RecordStore) -> None:
        """With `expected_version` only that version is replaced, 0 meaning that there is none."""
        with pytest.raises(ConflictError):
            store.values.put(ALICE, NOTES, "k", 1, expected_version=1, now=NOW)
        assert store.values.get(ALICE, NOTES, "k") is None
        store.values.put(ALICE, NOTES, "k", 1, expected_version=0, now=NOW)
        for wrong in (0, 2):
            with pytest.raises(ConflictError):
                store.values.put(ALICE, NOTES, "k", 2, expected_version=wrong, keep=9, now=NOW)
        assert [one.value for one in store.values.history(ALICE, NOTES, "k")] == [1]
        assert store.values.put(ALICE, NOTES, "k", 2, expected_version=1, now=NOW).version == 2

    def test_values_are_listed(self, store: RecordStore) -> None:
        """The values of a scope and kind, last written first, or those with one label."""
        for n, label in enumerate("abab"):
            store.values.put(ALICE, RUNS, str(n), n, label=label, now=later(hours=n))
        store.values.put(ALICE, NOTES, "note", 1, label="a", now=NOW)
        store.values.put(BOB, RUNS, "other", 1, label="a", now=NOW)
        store.values.put(ALICE, RUNS, "0", 9, label="b", now=later(hours=9))
        assert [one.key for one in store.values.list(ALICE, RUNS)] == ["0", "3", "2", "1"]
        assert [one.key for one in store.values.list(ALICE, RUNS, label="b")] == ["0", "3", "1"]
        assert store.values.list(ALICE, RUNS, label="c") == []

    def test_a_value_is_of_its_scope_kind_and_key(self, store: RecordStore) -> None:
        """No two scopes, kinds or keys share a value, whatever they are called."""
        for n, name in enumerate(HOSTILE_IDS):
            store.values.put(Scope.user(name), RUNS, name, n, now=NOW)
            store.values.put(ALICE, RUNS, name, n, now=NOW)
        for n, name in enumerate(HOSTILE_IDS):
            for scope in (Scope.user(name), ALICE):
                found = store.values.get(scope, RUNS, name)
                assert found is not None
                assert found.value == n
            assert store.values.get(ALICE, NOTES, name) is None
            assert store.values.get(Scope.session(name, user="alice"), RUNS, name) is None
        assert stored_kinds(store.values.delete(ALICE, RUNS, "u1")) == DeleteReceipt(runs=1)
        assert store.values.delete(ALICE, RUNS, "u1").nothing
        assert store.values.history(ALICE, RUNS, "u1") == []
        assert len(store.values.list(ALICE, RUNS)) == len(HOSTILE_IDS) - 1

    def test_a_session_takes_its_values_along(self, store: RecordStore) -> None:
        """Clearing a session deletes its values and counts them; its memories and its user's values stay."""
        append(store, TALK, [message("a")])
        store.records.put(TALK, [record(TALK, "memory")])
        for scope in (TALK, ALICE):
            store.values.put(scope, NOTES, "n", 1, keep=3, now=NOW)
            store.values.put(scope, NOTES, "n", 2, keep=3, now=NOW)
            store.values.put(scope, RUNS, "r", 1, now=NOW)
        assert stored_kinds(store.log.clear(TALK)) == DeleteReceipt(
            messages=1, sessions=1, turns=1, notes=1, runs=1
        )
        assert store.values.history(TALK, NOTES, "n") == []
        assert store.values.list(TALK, RUNS) == []
        assert len(store.values.history(ALICE, NOTES, "n")) == 2
        assert len(store.records.get(TALK, "memories", ["memory"], now=NOW)) == 1

    def test_values_without_a_session_are_cleared_too(self, store: RecordStore) -> None:
        """A session in which nothing was said yet may have a note, and loses it the same way."""
        store.values.put(TALK, NOTES, "n", 1, now=NOW)
        assert stored_kinds(store.log.clear(TALK)) == DeleteReceipt(notes=1)
        assert store.log.clear(TALK).nothing

    def test_a_scope_takes_its_values_along(self, store: RecordStore) -> None:
        """Deleting a user deletes the user's values and those of all sessions; everybody else's stay."""
        for scope in (ALICE, TALK, BOB):
            store.values.put(scope, NOTES, "n", 1, keep=3, now=NOW)
            store.values.put(scope, NOTES, "n", 2, keep=3, now=NOW)
            store.values.put(scope, RUNS, "r", 1, now=NOW)
        assert stored_kinds(store.records.delete_scope(ALICE)) == DeleteReceipt(notes=2, runs=2)
        for scope in (ALICE, TALK):
            assert store.values.list(scope, RUNS) == store.values.history(scope, NOTES, "n") == []
        assert len(store.values.history(BOB, NOTES, "n")) == 2
        assert stored_kinds(store.records.delete_everything()) == DeleteReceipt(notes=1, runs=1)
        assert store.values.history(BOB, NOTES, "n") == []
        assert store.values.put(ALICE, NOTES, "n", 3, now=NOW).version == 1

    def test_a_store_with_values_is_whole(self, store: RecordStore) -> None:
        """`verify` has nothing to say of values, and deleting what else a scope has keeps them."""
        store.records.put(ALICE, [record(ALICE, "a")])
        store.values.put(ALICE, NOTES, "n", 1, now=NOW)
        store.records.delete(ALICE, "memories", ["a"])
        assert store.values.get(ALICE, NOTES, "n") is not None
        assert store.verify() == []

    def test_threads_that_expect_a_version_lose_nothing(self, store: RecordStore) -> None:
        """Of eight threads that replace the version they read, one succeeds at a time."""

        def add(number: int) -> None:
            for n in range(5):
                while True:
                    old = store.values.get(ALICE, NOTES, "k")
                    seen = [] if old is None else old.value
                    assert isinstance(seen, list)
                    version = 0 if old is None else old.version
                    try:
                        store.values.put(
                            ALICE, NOTES, "k", [*seen, f"{number}.{n}"], expected_version=version, now=NOW
                        )
                    except ConflictError:
                        continue
                    break

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(add, range(8)))
        found = store.values.get(ALICE, NOTES, "k")
        assert found is not None
        assert isinstance(found.value, list)
        assert sorted(map(str, found.value)) == sorted(f"{i}.{n}" for i in range(8) for n in range(5))
        assert found.version == 40

    def test_values_are_there_after_reopening(self, store: RecordStore) -> None:
        """Values and their versions outlive the process when the store does."""
        if not self.durable:
            pytest.skip("this store is not durable")
        for n in range(3):
            store.values.put(ALICE, NOTES, "k", {"n": n}, keep=9, now=later(hours=n))
        kept = store.values.history(ALICE, NOTES, "k")
        store.close()
        with pytest.raises(ClosedError):
            store.values.get(ALICE, NOTES, "k")
        again = self.reopen(store)
        try:
            assert again.values.history(ALICE, NOTES, "k") == kept
        finally:
            again.close()
