"""LangChain's own integration tests for retrievers, on a real memory."""

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_memkit import MemkitRetriever


class TestMemkitRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _filled(self, memory, alice):
        memory.add_many([f"Owl number {i} lives in tree {i}" for i in range(6)], scope=alice)
        self._parameters = {"memory": memory, "scope": alice}

    @property
    def retriever_constructor(self):
        return MemkitRetriever

    @property
    def retriever_constructor_params(self):
        return self._parameters

    @property
    def retriever_query_example(self):
        return "where do the owls live"
