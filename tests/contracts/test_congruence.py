"""The vector indexes beside each other: whatever is done to all of them, all give the same answers."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
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
from memkit_core.testing.strategies import filters, records

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
indexed_filters = filters(fields=INDEXED_FIELDS, free_metadata=False).filter(
    lambda where: indexable(where, INDEXED_FIELDS)
)


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


class IndexesAgree(RuleBasedStateMachine):
    """Every rule does the same to all indexes; what they return is compared with the exact one's."""

    @initialize()
    def open(self):
        self.folder = tempfile.TemporaryDirectory()
        self.client = connect_qdrant(":memory:")
        self.exact = FlatIndex(DIMENSION)
        # Batches smaller than what is written, so that writes are split.
        self.others = [
            EdgeIndex(Path(self.folder.name) / "index", DIMENSION, batch=3),
            QdrantIndex(self.client, "memories", DIMENSION, batch=3),
        ]

    def teardown(self):
        if hasattr(self, "folder"):
            for index in (self.exact, *self.others):
                index.close()
            self.client.close()
            self.folder.cleanup()

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

    @rule(
        asked=st.sampled_from(TARGETS),
        query=vectors,
        where=st.none() | indexed_filters,
        limit=st.integers(1, 12),
    )
    def searches_agree(self, asked, query, where, limit):
        among = {hit.point_id: hit.cosine for hit in self.exact.search(asked, query, where=where, limit=999)}
        best = self.exact.search(asked, query, where=where, limit=limit)
        for index in self.others:
            hits = index.search(asked, query, where=where, limit=limit)
            # Points as near as each other may change places, also at the end of the list.
            assert [hit.cosine for hit in hits] == pytest.approx([hit.cosine for hit in best], abs=TOLERANCE)
            assert {hit.point_id: hit.cosine for hit in hits} == pytest.approx(
                {hit.point_id: among.get(hit.point_id) for hit in hits}, abs=TOLERANCE
            )
            assert len({hit.point_id for hit in hits}) == len(hits)

    @invariant()
    def contents_agree(self):
        if not hasattr(self, "others"):
            return
        everything = [record(scope, one, space=space).point_id for scope, space in PLACES for one in IDS]
        expected = self.exact.get(everything)
        for index in self.others:
            assert index.count() == self.exact.count() == len(expected)
            held = index.get(everything)
            assert held.keys() == expected.keys()
            for point, vector in expected.items():
                np.testing.assert_allclose(held[point], vector, rtol=0, atol=TOLERANCE)


TestIndexesAgree = IndexesAgree.TestCase
TestIndexesAgree.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
