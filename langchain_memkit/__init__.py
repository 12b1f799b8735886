"""memkit for LangChain: a chat history and a retriever over one `memkit_core.Memory`.

from langchain_memkit import MemkitChatMessageHistory, MemkitRetriever

RunnableWithMessageHistory(
    chain,
    lambda session_id: MemkitChatMessageHistory(memory, session_id=session_id, user_id="alice"),
    input_messages_key="question",
    history_messages_key="history",
)
MemkitRetriever(memory=memory, scope=Scope.user("alice"), k=5)
"""

from langchain_memkit import _floor as _floor  # first: it says what to install
from langchain_memkit.history import MemkitChatMessageHistory
from langchain_memkit.retriever import MemkitRetriever

__all__ = ["MemkitChatMessageHistory", "MemkitRetriever"]
