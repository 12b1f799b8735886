"""Every vector index keeps the same contract."""

import pytest

from memkit_core.indexes.edge import EdgeIndex
from memkit_core.indexes.flat import FlatIndex
from memkit_core.indexes.qdrant import QdrantIndex, connect_qdrant
from memkit_core.testing import VectorIndexContract
from memkit_core.testing.indexes import DIMENSION


class TestEdgeIndex(VectorIndexContract):
    @pytest.fixture
    def index(self, tmp_path):
        self.folder = tmp_path / "index"
        index = EdgeIndex(self.folder, DIMENSION)
        yield index
        index.close()

    def reopen(self, index):
        return EdgeIndex(self.folder, DIMENSION)


class TestFlatIndex(VectorIndexContract):
    durable = False

    @pytest.fixture
    def index(self):
        index = FlatIndex(DIMENSION)
        yield index
        index.close()


class TestQdrantIndex(VectorIndexContract):
    """On the engine that qdrant-client brings along; no real server was asked."""

    @pytest.fixture
    def index(self):
        pytest.importorskip("qdrant_client")
        self.client = connect_qdrant(":memory:")
        index = QdrantIndex(self.client, "memories", DIMENSION)
        yield index
        index.close()
        self.client.close()

    def reopen(self, index):
        return QdrantIndex(self.client, "memories", DIMENSION)
