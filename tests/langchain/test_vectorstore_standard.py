"""LangChain's own integration tests for vector stores and embeddings, on a real memory."""

import pytest
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, VectorStoreIntegrationTests

from langchain_memkit import MemkitEmbeddings, MemkitVectorStore


class TestWithTheMemorysEmbedder(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, memory, alice):
        memory.add("a memory that no search of a store may find: foo", scope=alice)
        return MemkitVectorStore(memory=memory, scope=alice)


class TestWithAnEmbeddingOfItsOwn(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, memory, alice):
        memory.add("a memory that no search of a store may find: foo", scope=alice)
        return MemkitVectorStore(
            memory=memory, scope=alice, embedding=self.get_embeddings(), embedding_model="fake"
        )


class TestMemkitEmbeddings(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self):
        return MemkitEmbeddings
