"""`VectorIndexContract`: exact answers, filtered before they are cut, of the target alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core.errors import BackendError, ClosedError, DimensionMismatchError
from memkit_core.filters import MISSING, Filter, evaluate, indexable, parse_filter
from memkit_core.indexes.points import index_point
from memkit_core.models import MESSAGES, MemoryRecord, Target
from memkit_core.ports import INDEXED_FIELDS, IndexPoint, Matrix, Vector, VectorIndex
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.isolation import FAMILY
from memkit_core.testing.records import PROPERTY
from memkit_core.testing.samples import ALICE, HOSTILE_IDS, TALK, every_field, record, turns
from memkit_core.testing.strategies import every_field_condition, filters, records

DIMENSION = 16
"""Length of the vectors in the index that the fixture gives."""

_MINE = Target(scope=ALICE)
_TOLERANCE = 1e-5
_QUERY: Vector = np.random.default_rng(7).normal(size=DIMENSION).astype(np.float32)
_INDEXABLE = filters(fields=INDEXED_FIELDS, free_metadata=False).filter(
    lambda where: indexable(where, INDEXED_FIELDS)
)


def point(one: MemoryRecord, vector: Vector) -> IndexPoint:
    """What the index is told of a record."""
    return index_point(one, vector)


def random_vectors(count: int, seed: int = 0) -> Matrix:
    """Shape `(count, DIMENSION) float32`, of random lengths and directions."""
    return np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)


def points(scope: Scope, count: int, *, seed: int = 0, space: str = "memories") -> list[IndexPoint]:
    """`count` points of one scope, named `r0`, `r1` and so on."""
    rows = enumerate(random_vectors(count, seed))
    return [point(record(scope, f"r{i}", space=space), vector) for i, vector in rows]


def brute_force(
    held: Sequence[IndexPoint], query: Vector, *, where: Filter | None = None
) -> list[tuple[str, float]]:
    """(point id, cosine) of the points that satisfy `where`, best first, in double precision."""
    found = []
    for one in held:
        if where is None or evaluate(where, _values(one)):
            a, b = one.vector.astype(np.float64), query.astype(np.float64)
            found.append((str(one.point_id), float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))))
    return sorted(found, key=lambda pair: -pair[1])


def _values(one: IndexPoint) -> Callable[[tuple[str, ...]], object]:
    def look_up(path: tuple[str, ...]) -> object:
        value = getattr(one, path[0])
        if value is None:
            return MISSING
        return list(value) if path[0] == "tags" else value

    return look_up


class VectorIndexContract(ContractGuard):
    """What every `VectorIndex` does, as tests. Subclass it and give it a fixture `index`.

    The fixture gives an empty index for vectors of `DIMENSION` and closes it. Set `durable = False`
    when the index forgets with the process; else define `reopen(index)`.
    """

    durable = True
    """Whether what was flushed is there after `reopen`."""

    @pytest.fixture
    def index(self) -> VectorIndex:
        """The index under test; every subclass gives its own."""
        raise NotImplementedError("give the contract a fixture named index")

    def reopen(self, index: VectorIndex) -> VectorIndex:
        """A new index on what the closed `index` has left; given by the subclass of a durable index."""
        raise NotImplementedError(f"{type(self).__name__} says it is durable: give it a reopen method")

    def test_an_empty_index_finds_nothing(self, index: VectorIndex) -> None:
        """An empty index has no points, finds nothing, and deletes nothing without complaint."""
        assert index.dimension == DIMENSION
        assert index.count() == 0
        assert index.search(_MINE, _QUERY, where=None, limit=10) == []
        assert index.get([record(ALICE, "x").point_id]) == {}
        assert index.get([]) == {}
        index.upsert([])
        index.delete([])
        index.delete([record(ALICE, "x").point_id])
        index.clear()
        index.flush()

    def test_another_dimension_is_a_typed_error(self, index: VectorIndex) -> None:
        """A vector or a query of another length raises `DimensionMismatchError`; nothing is written."""
        good, *_ = points(ALICE, 1)
        for size in (DIMENSION - 1, DIMENSION + 1, 0):
            bad = dataclasses.replace(good, vector=np.ones(size, np.float32))
            with pytest.raises(DimensionMismatchError):
                index.upsert([good, bad])
            with pytest.raises(DimensionMismatchError):
                index.search(_MINE, np.ones(size, np.float32), where=None, limit=1)
        assert index.count() == 0

    def test_zero_and_broken_vectors(self, index: VectorIndex) -> None:
        """A zero query finds nothing; zero and non-finite vectors are refused, and so are such queries."""
        held = points(ALICE, 3)
        index.upsert(held)
        assert index.search(_MINE, np.zeros(DIMENSION, np.float32), where=None, limit=5) == []
        for value in (0.0, np.nan, np.inf, -np.inf):
            broken = np.full(DIMENSION, value, np.float32)
            with pytest.raises(BackendError):
                index.upsert([dataclasses.replace(held[0], vector=broken)])
            if value != 0.0:
                with pytest.raises(BackendError):
                    index.search(_MINE, broken, where=None, limit=5)
        assert index.count() == 3
        assert index.get([held[0].point_id])[held[0].point_id] == pytest.approx(
            held[0].vector / np.linalg.norm(held[0].vector), abs=_TOLERANCE
        )

    def test_it_agrees_with_brute_force(self, index: VectorIndex) -> None:
        """Ten queries over three hundred vectors: the same points, the same cosines, best first."""
        held = points(ALICE, 300)
        index.upsert(held)
        for query in random_vectors(10, seed=5):
            expected = brute_force(held, query)
            hits = index.search(_MINE, query, where=None, limit=10)
            assert [str(hit.point_id) for hit in hits] == [name for name, _ in expected[:10]]
            assert [hit.cosine for hit in hits] == pytest.approx(
                [cosine for _, cosine in expected[:10]], abs=_TOLERANCE
            )

    def test_lengths_do_not_matter(self, index: VectorIndex) -> None:
        """Cosine is 1 for the same direction, -1 for the opposite, 0 across, whatever the lengths."""
        axes = np.eye(DIMENSION, dtype=np.float32)
        # 1e-30 and 1e30 fit in float32, their squares do not.
        for small, large in ((1e-3, 50), (1e-30, 1e30)):
            vectors = {"same": axes[0] * small, "across": axes[1] * large, "opposite": axes[0] * -large}
            index.upsert([point(record(ALICE, name), v.astype(np.float32)) for name, v in vectors.items()])
            for length in (1e3, small, large):
                query = (axes[0] * length).astype(np.float32)
                hits = index.search(_MINE, query, where=None, limit=10)
                assert [hit.point_id for hit in hits] == [record(ALICE, name).point_id for name in vectors]
                assert [hit.cosine for hit in hits] == pytest.approx([1, 0, -1], abs=_TOLERANCE)
                assert all(-1 <= hit.cosine <= 1 for hit in hits)

    def test_a_limit_above_the_number_of_points(self, index: VectorIndex) -> None:
        """A limit above the number of points returns them all, once each."""
        held = points(ALICE, 5)
        index.upsert(held)
        hits = index.search(_MINE, _QUERY, where=None, limit=1000)
        assert {hit.point_id for hit in hits} == {one.point_id for one in held}
        assert len(hits) == 5

    def test_a_limit_of_nothing(self, index: VectorIndex) -> None:
        """A limit of zero or less finds nothing."""
        index.upsert(points(ALICE, 3))
        for limit in (0, -1):
            assert index.search(_MINE, _QUERY, where=None, limit=limit) == []

    def test_arrays_stay_the_callers(self, index: VectorIndex) -> None:
        """What a caller does to an array it gave or got changes nothing in the index."""
        given = np.array(_QUERY)
        one = point(record(ALICE, "x"), given)
        index.upsert([one])
        given *= -1
        index.get([one.point_id])[one.point_id][:] = 0
        (hit,) = index.search(_MINE, _QUERY, where=None, limit=1)
        assert hit.cosine == pytest.approx(1, abs=_TOLERANCE)
        assert not np.array_equal(given, _QUERY)

    def test_upsert_replaces(self, index: VectorIndex) -> None:
        """A known id gets the new vector and the new labels, and there is still one of it."""
        (old,) = points(ALICE, 1)
        index.upsert([old])
        new = dataclasses.replace(old, vector=-old.vector, tags=("new",), status="archived")
        index.upsert([new])
        assert index.count() == 1
        (hit,) = index.search(_MINE, old.vector, where=None, limit=5)
        assert hit.cosine == pytest.approx(-1, abs=_TOLERANCE)
        for where, count in (({"tags": {"contains": "new"}}, 1), ({"status": "active"}, 0)):
            assert len(index.search(_MINE, _QUERY, where=parse_filter(where), limit=5)) == count

    def test_the_same_point_twice_in_a_call(self, index: VectorIndex) -> None:
        """The same id twice in one call is one point with the last vector."""
        (old,) = points(ALICE, 1)
        index.upsert([old, dataclasses.replace(old, vector=-old.vector)])
        assert index.count() == 1
        (hit,) = index.search(_MINE, old.vector, where=None, limit=5)
        assert hit.cosine == pytest.approx(-1, abs=_TOLERANCE)

    def test_delete_and_clear(self, index: VectorIndex) -> None:
        """Deleted points are found, counted and returned no more; clear leaves none; both can be refilled."""
        held = points(ALICE, 10)
        index.upsert(held)
        index.delete([held[0].point_id, record(ALICE, "unknown").point_id, held[1].point_id])
        assert index.count() == 8
        assert index.get([one.point_id for one in held]).keys() == {one.point_id for one in held[2:]}
        found = index.search(_MINE, held[0].vector, where=None, limit=20)
        assert {hit.point_id for hit in found} == {one.point_id for one in held[2:]}
        index.clear()
        assert index.count() == 0
        assert index.search(_MINE, _QUERY, where=None, limit=20) == []
        index.upsert(held[:3])
        assert index.count() == 3

    def test_get_returns_unit_vectors(self, index: VectorIndex) -> None:
        """`get` returns the stored vectors at length 1, float32, of the points that exist."""
        held = points(ALICE, 4)
        index.upsert(held)
        found = index.get([held[2].point_id, record(ALICE, "unknown").point_id])
        assert found.keys() == {held[2].point_id}
        vector = found[held[2].point_id]
        assert (vector.shape, vector.dtype.name) == ((DIMENSION,), "float32")
        assert vector == pytest.approx(held[2].vector / np.linalg.norm(held[2].vector), abs=_TOLERANCE)

    @PROPERTY
    @given(
        batch=st.lists(records(ALICE), min_size=1, max_size=10, unique_by=lambda one: one.id),
        where=_INDEXABLE,
        limit=st.integers(1, 11),
    )
    def test_filters_mean_what_the_grammar_says_before_the_limit(
        self, index: VectorIndex, batch: list[MemoryRecord], where: Filter, limit: int
    ) -> None:
        """For every filter on the indexed fields: the best `limit` of exactly the points that satisfy it."""
        index.clear()
        held = [point(one, v) for one, v in zip(batch, random_vectors(len(batch)), strict=True)]
        index.upsert(held)
        hits = index.search(_MINE, _QUERY, where=where, limit=limit)
        expected = brute_force(held, _QUERY, where=where)[:limit]
        assert [str(hit.point_id) for hit in hits] == [name for name, _ in expected]

    def test_every_operator_on_every_field(self, index: VectorIndex) -> None:
        """Each indexed field with each operator, over points with and without a value of it."""
        full = dataclasses.replace(every_field(ALICE, "full"), pinned=False)
        rows = [record(ALICE, "empty"), full, record(ALICE, "tagged", tags=("a", "b"))]
        held = [point(one, vector) for one, vector in zip(rows, random_vectors(3), strict=True)]
        index.upsert(held)
        for where in every_field_condition(INDEXED_FIELDS):
            if indexable(where, INDEXED_FIELDS):
                hits = index.search(_MINE, _QUERY, where=where, limit=9)
                expected = brute_force(held, _QUERY, where=where)
                assert [str(hit.point_id) for hit in hits] == [name for name, _ in expected], where

    def test_a_filter_comes_before_the_limit(self, index: VectorIndex) -> None:
        """The one match, farthest from the query of three hundred, is found with a limit of one."""
        held = points(ALICE, 300)
        farthest = min(held, key=lambda one: float(one.vector @ _QUERY / np.linalg.norm(one.vector)))
        rare = dataclasses.replace(farthest, tags=("rare",))
        index.upsert([rare if one is farthest else one for one in held])
        where = parse_filter({"tags": {"contains": "rare"}})
        (hit,) = index.search(_MINE, _QUERY, where=where, limit=1)
        assert hit.point_id == farthest.point_id

    def test_each_scope_finds_its_own(self, index: VectorIndex) -> None:
        """Siblings, parents, children and look-alikes: a search sees the points of its scope alone."""
        index.upsert([point(record(scope, "x"), _QUERY) for scope in FAMILY])
        hostile = [Scope.user(name) for name in HOSTILE_IDS if name not in ("u1", "u10", "U1")]
        index.upsert([point(record(scope, "x"), _QUERY) for scope in hostile])
        for scope in [*FAMILY, *hostile]:
            hits = index.search(Target(scope=scope), _QUERY, where=None, limit=99)
            assert [hit.point_id for hit in hits] == [record(scope, "x").point_id]

    def test_spaces_are_apart(self, index: VectorIndex) -> None:
        """A search in one space sees no point of another."""
        for space in ("memories", "store:n", "store:n2", MESSAGES):
            index.upsert(points(ALICE, 2, space=space))
        for space in ("memories", "store:n", "store:n2", MESSAGES):
            hits = index.search(Target(scope=ALICE, space=space), _QUERY, where=None, limit=99)
            expected = {record(ALICE, f"r{i}", space=space).point_id for i in range(2)}
            assert {hit.point_id for hit in hits} == expected
        assert index.search(Target(scope=ALICE, space="store"), _QUERY, where=None, limit=99) == []

    def test_a_session_is_a_part_of_its_users_turns(self, index: VectorIndex) -> None:
        """A session finds its own turns before the limit, its user those of all sessions."""
        other = Scope.session("s2", user="alice")
        stranger = Scope.session("s1", user="bob")
        for seed, scope in enumerate((TALK, other, stranger)):
            index.upsert(points(scope, 20, seed=seed, space=MESSAGES))
        hits = index.search(turns(TALK), _QUERY, where=None, limit=99)
        assert {hit.point_id for hit in hits} == {one.point_id for one in points(TALK, 20, space=MESSAGES)}
        held = points(TALK, 20, space=MESSAGES) + points(other, 20, seed=1, space=MESSAGES)
        for target, among in ((turns(TALK), held[:20]), (turns(ALICE), held)):
            hits = index.search(target, _QUERY, where=None, limit=5)
            assert [str(hit.point_id) for hit in hits] == [n for n, _ in brute_force(among, _QUERY)[:5]]

    def test_eight_writers_and_four_readers(self, index: VectorIndex) -> None:
        """Eight writing and four reading threads: nothing fails, nothing is lost, nothing is mixed."""
        users = [Scope.user(f"t{i}") for i in range(8)]

        def write(user: Scope) -> None:
            for start in range(0, 40, 10):
                index.upsert(points(user, 40)[start : start + 10])
            index.delete([one.point_id for one in points(user, 10)])

        def read(user: Scope) -> None:
            own = {one.point_id for one in points(user, 40)}
            for _ in range(10):
                assert {
                    hit.point_id for hit in index.search(Target(scope=user), _QUERY, where=None, limit=99)
                } <= own

        with ThreadPoolExecutor(12) as pool:
            jobs = [pool.submit(write, user) for user in users] + [
                pool.submit(read, user) for user in users[:4]
            ]
            for job in jobs:
                job.result()
        assert index.count() == 8 * 30
        for user in users:
            hits = index.search(Target(scope=user), _QUERY, where=None, limit=99)
            assert {hit.point_id for hit in hits} == {one.point_id for one in points(user, 40)[10:]}

    def test_close_twice(self, index: VectorIndex) -> None:
        """Closing twice is one close, and every later call raises `ClosedError`."""
        held = points(ALICE, 1)
        index.upsert(held)
        index.close()
        index.close()
        with pytest.raises(ClosedError):
            index.search(_MINE, _QUERY, where=None, limit=1)
        with pytest.raises(ClosedError):
            index.upsert(held)
        with pytest.raises(ClosedError):
            index.count()

    def test_everything_is_there_after_reopening(self, index: VectorIndex) -> None:
        """Points, labels and deletions outlive a durable index."""
        if not self.durable:
            pytest.skip("this index is not durable")
        held = [dataclasses.replace(one, tags=("t",)) for one in points(ALICE, 20)]
        index.upsert(held)
        index.delete([held[0].point_id])
        index.flush()
        index.close()
        again = self.reopen(index)
        try:
            assert again.count() == 19
            hits = again.search(_MINE, _QUERY, where=parse_filter({"tags": {"contains": "t"}}), limit=99)
            assert [str(hit.point_id) for hit in hits] == [n for n, _ in brute_force(held[1:], _QUERY)]
        finally:
            again.close()
