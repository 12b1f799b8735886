"""The vector indexes beside each other: whatever is done to all of them, all give the same answers."""

import itertools

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memkit_core.filters import indexable
from memkit_core.indexes.edge import EdgeIndex
from memkit_core.indexes.flat import FlatIndex
from memkit_core.indexes.points import index_point
from memkit_core.indexes.qdrant import QdrantIndex, connect_qdrant
from memkit_core.models import MEMORIES, MESSAGES, Target
from memkit_core.ports import INDEXED_FIELDS
from memkit_core.scope import Scope
from memkit_core.testing.samples import record
from memkit_core.testing.strategies import every_field_condition, filters, records

pytest.importorskip("qdrant_client")

DIMENSION = 4
TOLERANCE = 1e-5
ALICE = Scope.user("alice")
TALK, OTHER = Scope.session("s1", user="alice"), Scope.session("s2", user="alice")
PLACES = [
    *((scope, space) for scope in (ALICE, Scope.user("bob")) for space in (MEMORIES, "store:x")),
    (TALK, MESSAGES),
    (OTHER, MESSAGES),
]
TARGETS = [Target(scope=scope, space=space) for scope, space in [*PLACES, (ALICE, MESSAGES)]]
IDS = ("a", "b", "c", "d", "e")

# Few values, so that points tie, oppose each other and lie across; lengths from tiny to huge.
vectors = st.tuples(
    st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=DIMENSION, max_size=DIMENSION).filter(any),
    st.sampled_from([1e-20, 1.0, 37.0, 1e20]),
).map(lambda drawn: (np.array(drawn[0]) * drawn[1]).astype(np.float32))
limits = st.integers(1, 12)
indexed_filters = (
    st.sampled_from(every_field_condition(INDEXED_FIELDS))
    | filters(fields=INDEXED_FIELDS, free_metadata=False)
).filter(lambda where: indexable(where, INDEXED_FIELDS))


@st.composite
def points(draw):
    """A point in one of the places, of few ids, with any labels and times."""
    scope, space = draw(st.sampled_from(PLACES))
    labelled = draw(records(scope, space=space))
    named = record(
        scope,
        draw(st.sampled_from(IDS)),
        space=space,
        **{name: getattr(labelled, name) for name in ("pinned", *INDEXED_FIELDS)},
    )
    return index_point(named, draw(vectors))


@pytest.fixture(scope="module", autouse=True)
def indexes(tmp_path_factory):
    """The indexes under test, made once: a shard takes longer to make than an example to run."""
    client = connect_qdrant(":memory:")
    exact = FlatIndex(DIMENSION)
    # Batches smaller than what is written, so that writes are split.
    edge = EdgeIndex(tmp_path_factory.mktemp("edge") / "index", DIMENSION, batch=3)
    served = QdrantIndex(client, "memories", DIMENSION, batch=3)
    IndexesAgree.exact, IndexesAgree.others = exact, (edge, served)
    yield
    for index in (exact, edge, served):
        index.close()
    client.close()


class IndexesAgree(RuleBasedStateMachine):
    """Every rule does the same to all indexes; what they return is compared with the exact one's."""

    @initialize()
    def empty(self):
        self.clear()

    @rule(batch=st.lists(points(), max_size=8))
    def upsert(self, batch):
        for index in (self.exact, *self.others):
            index.upsert(batch)

    @rule(place=st.sampled_from(PLACES), ids=st.lists(st.sampled_from(IDS), max_size=4))
    def delete(self, place, ids):
        scope, space = place
        for index in (self.exact, *self.others):
            index.delete([record(scope, one, space=space).point_id for one in ids])

    @rule()
    def clear(self):
        for index in (self.exact, *self.others):
            index.clear()

    @rule(query=vectors, filters=st.lists(st.none() | indexed_filters, min_size=1, max_size=9), limit=limits)
    def searches_agree(self, query, filters, limit):
        for target, where in itertools.product(TARGETS, filters):
            everything = self.exact.search(target, query, where=where, limit=999)
            cosines = {hit.point_id: hit.cosine for hit in everything}
            best = pytest.approx([hit.cosine for hit in everything[:limit]], abs=TOLERANCE)
            for index in self.others:
                hits = index.search(target, query, where=where, limit=limit)
                # Points as near as each other may change places, also at the end of the list.
                assert [hit.cosine for hit in hits] == best
                found = {hit.point_id: hit.cosine for hit in hits}
                assert len(found) == len(hits)
                assert found.keys() <= cosines.keys()
                assert found == pytest.approx({point: cosines[point] for point in found}, abs=TOLERANCE)

    @invariant()
    def contents_agree(self):
        everything = [record(scope, one, space=space).point_id for scope, space in PLACES for one in IDS]
        expected = self.exact.get(everything)
        for index in self.others:
            assert index.count() == self.exact.count() == len(expected)
            held = index.get(everything)
            assert held.keys() == expected.keys()
            for point, vector in expected.items():
                np.testing.assert_allclose(held[point], vector, rtol=0, atol=TOLERANCE)


TestIndexesAgree = IndexesAgree.TestCase
TestIndexesAgree.settings = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    # A failure is shown as it was found: to make it smaller takes three engines several minutes.
    phases=set(Phase) - {Phase.shrink, Phase.explain},
)
