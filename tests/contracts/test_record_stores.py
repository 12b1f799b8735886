"""Every record store keeps the same contract."""

import pytest

from memkit_core.stores.memory import InMemoryStore
from memkit_core.stores.sqlite import SQLiteStore
from memkit_core.testing import PortableContract, RecordStoreContract


class TestSQLiteStore(RecordStoreContract, PortableContract):
    @pytest.fixture
    def store(self, tmp_path):
        store = SQLiteStore(tmp_path / "memory.db")
        yield store
        store.close()

    def reopen(self, store):
        return SQLiteStore(store.path)


class TestInMemoryStore(RecordStoreContract, PortableContract):
    durable = False

    @pytest.fixture
    def store(self):
        store = InMemoryStore()
        yield store
        store.close()
