"""memkit for LangChain: a chat history, a retriever and a vector store over one `memkit_core.Memory`.

from langchain_memkit import MemkitChatMessageHistory, MemkitRetriever, MemkitVectorStore

RunnableWithMessageHistory(
    chain,
    lambda session_id: MemkitChatMessageHistory(memory, session_id=session_id, user_id="alice"),
    input_messages_key="question",
    history_messages_key="history",
)
MemkitRetriever(memory=memory, scope=Scope.user("alice"), k=5)
MemkitVectorStore(memory=memory, scope=Scope.user("alice"), name="manuals")
"""

from langchain_memkit import _floor as _floor  # first: it says what to install
from langchain_memkit.embeddings import MemkitEmbeddings
from langchain_memkit.history import MemkitChatMessageHistory
from langchain_memkit.retriever import MemkitRetriever
from langchain_memkit.vectorstore import MemkitVectorStore

__all__ = ["MemkitChatMessageHistory", "MemkitEmbeddings", "MemkitRetriever", "MemkitVectorStore"]
