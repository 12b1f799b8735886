"""memkit for LlamaIndex: long-term memory for chat engines and agents.

from llamaindex_memkit import MemkitMemory

memory = MemkitMemory.from_defaults(memory=Memory.open("memory.db"), session_id="s1", user_id="alice")
engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory)
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from memkit_core.errors import MissingDependencyError

_OLDEST = (0, 14, 10)


def _require_llama_index() -> None:
    """Refuse a missing or too old llama-index-core: an extra does not bind what is installed otherwise."""
    needs = f"llama-index-core {'.'.join(map(str, _OLDEST))} or newer"
    try:
        found = version("llama-index-core")
    except PackageNotFoundError:
        raise MissingDependencyError(needs, extra="llamaindex") from None
    if tuple(map(int, re.findall(r"\d+", found)[:3])) < _OLDEST:
        raise MissingDependencyError(f"{needs} (there is {found})", extra="llamaindex")


_require_llama_index()

from llamaindex_memkit.block import MemkitMemoryBlock  # noqa: E402 - what it imports was checked first
from llamaindex_memkit.chat_store import MemkitChatStore  # noqa: E402 - as above
from llamaindex_memkit.memory import MemkitMemory  # noqa: E402 - as above
from llamaindex_memkit.reranking import MemkitPostprocessor, postprocessor_reranker  # noqa: E402 - as above
from llamaindex_memkit.retriever import MemkitRetriever  # noqa: E402 - as above
from llamaindex_memkit.tools import memory_tools, working_memory_tools  # noqa: E402 - as above
from llamaindex_memkit.vectorstore import MemkitVectorStore  # noqa: E402 - as above

__all__ = [
    "MemkitChatStore",
    "MemkitMemory",
    "MemkitMemoryBlock",
    "MemkitPostprocessor",
    "MemkitRetriever",
    "MemkitVectorStore",
    "memory_tools",
    "postprocessor_reranker",
    "working_memory_tools",
]
