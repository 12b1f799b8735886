"""memkit for LangChain: chat history, agent middleware, store, retriever and vector store over one `memkit_core.Memory`.

from langchain_memkit import MemkitChatMessageHistory, MemkitMiddleware, MemkitRetriever, MemkitStore, MemkitVectorStore

create_agent(model, tools, middleware=[MemkitMiddleware(memory, scope=Scope.session("s1", user="alice"))])
create_agent(model, tools, store=MemkitStore(memory, scope=Scope.user("alice")))
RunnableWithMessageHistory(
    chain,
    lambda session_id: MemkitChatMessageHistory(memory, session_id=session_id, user_id="alice"),
    input_messages_key="question",
    history_messages_key="history",
)
MemkitRetriever(memory=memory, scope=Scope.user("alice"), k=5)
MemkitVectorStore(memory=memory, scope=Scope.user("alice"), name="manuals")
"""

from typing import TYPE_CHECKING

from langchain_memkit import _floor as _floor  # first: it says what to install
from langchain_memkit.embeddings import MemkitEmbeddings
from langchain_memkit.history import MemkitChatMessageHistory
from langchain_memkit.reranking import MemkitDocumentCompressor, compressor_reranker
from langchain_memkit.retriever import MemkitRetriever
from langchain_memkit.tools import memory_tools, working_memory_tools
from langchain_memkit.vectorstore import MemkitVectorStore

if TYPE_CHECKING:
    from langchain_memkit.middleware import MemkitMiddleware
    from langchain_memkit.store import MemkitStore

__all__ = [
    "MemkitChatMessageHistory",
    "MemkitDocumentCompressor",
    "MemkitEmbeddings",
    "MemkitMiddleware",
    "MemkitRetriever",
    "MemkitStore",
    "MemkitVectorStore",
    "compressor_reranker",
    "memory_tools",
    "working_memory_tools",
]


def __getattr__(name: str) -> object:
    """Those for agents and graphs on first use: they need `langchain` and LangGraph, the others langchain-core."""
    if name == "MemkitMiddleware":
        from langchain_memkit.middleware import MemkitMiddleware

        return MemkitMiddleware
    if name == "MemkitStore":
        from langchain_memkit.store import MemkitStore

        return MemkitStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
