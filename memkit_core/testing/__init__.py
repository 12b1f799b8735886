"""Contract suites: prove with pytest that a store or an index of your own is one memkit can use.

Subclass a contract, say what your backend cannot do, and give it one fixture::

    class TestMyStore(RecordStoreContract):
        durable = False

        @pytest.fixture
        def store(self):
            store = MyStore()
            yield store
            store.close()

Needs pytest and hypothesis, which nothing else of memkit does. `filters`, `metadata`, `records` and
`ids` are Hypothesis strategies for tests of your own.
"""

import pytest

# A failing contract shows the values it compared, as a test of one's own would.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in (
            "changes", "duplicates", "filters", "given_vectors", "guard", "indexes", "isolation", "keywords",
            "lifecycle", "log", "outbox", "records", "records_listed", "vectors",
        )
    )
)  # fmt: skip

from memkit_core.testing.indexes import VectorIndexContract  # noqa: E402 - after the assertion rewriting
from memkit_core.testing.stores import RecordStoreContract  # noqa: E402 - as above
from memkit_core.testing.strategies import filters, ids, metadata, records  # noqa: E402 - as above

__all__ = ["RecordStoreContract", "VectorIndexContract", "filters", "ids", "metadata", "records"]
