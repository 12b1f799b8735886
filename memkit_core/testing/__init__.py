"""Contract suites: prove with pytest that a store, index or embedder of your own is one memkit can use.

Subclass a contract, say what your backend cannot do, and give it one fixture::

    class TestMyStore(RecordStoreContract):
        durable = False

        @pytest.fixture
        def store(self):
            store = MyStore()
            yield store
            store.close()

`RecordStoreContract` holds the suite of the store's keyword leg; `KeywordIndexContract` is that suite
alone, for a `KeywordIndex` without a store (`StoreWithKeywords`). `PortableContract`, with the same
fixture, is for a store that can also be exported and imported. `VectorIndexContract` wants a fixture
`index`, `EmbedderContract` one named `embedder`.

Needs pytest and hypothesis, which nothing else of memkit does. `filters`, `metadata`, `records` and
`ids` are Hypothesis strategies for tests of your own.
"""

import pytest

# A failing contract shows the values it compared, as a test of one's own would.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in (
            "changes", "duplicates", "embedders", "filters", "given_vectors", "guard", "indexes", "isolation",
            "increments", "jobs", "keywords", "lifecycle", "log", "moves", "outbox", "portable", "recalls", "records", "records_listed", "replacing", "rewriting", "sessions", "standing", "values", "vectors",
        )
    )
)  # fmt: skip

# ruff: noqa: E402 - the suites are imported after their assertions are to be rewritten
from memkit_core.testing.embedders import EmbedderContract
from memkit_core.testing.indexes import VectorIndexContract
from memkit_core.testing.keywords import KeywordIndexContract, StoreWithKeywords
from memkit_core.testing.portable import PortableContract
from memkit_core.testing.stores import RecordStoreContract
from memkit_core.testing.strategies import filters, ids, metadata, records

__all__ = [
    "EmbedderContract",
    "KeywordIndexContract",
    "PortableContract",
    "RecordStoreContract",
    "StoreWithKeywords",
    "VectorIndexContract",
    "filters",
    "ids",
    "metadata",
    "records",
]
