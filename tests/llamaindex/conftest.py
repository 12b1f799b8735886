"""A memory in a file, the adapter on it, and a model whose words are scripted."""
# ruff: noqa: FBT001, FBT002 - the signatures of the model are LlamaIndex's own

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.vector_stores.types import VectorStoreQuery
from pydantic import PrivateAttr

from llamaindex_memkit import MemkitMemory, MemkitVectorStore
from memkit_core import Memory, Scope


class ScriptedLLM(FunctionCallingLLM):
    """Says the given replies in order, then "ok"; keeps a deep copy of every prompt it was given."""

    _replies: list[ChatMessage] = PrivateAttr()
    _prompts: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, *replies: str | ChatMessage) -> None:
        super().__init__()
        self._replies = [
            ChatMessage(role="assistant", content=reply) if isinstance(reply, str) else reply
            for reply in replies
        ]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, is_function_calling_model=True)

    @property
    def prompts(self) -> list[list[ChatMessage]]:
        return self._prompts

    def _reply(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        self._prompts.append([message.model_copy(deep=True) for message in messages])
        if self._replies:
            return self._replies.pop(0)
        return ChatMessage(role="assistant", content="ok")

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return ChatResponse(message=self._reply(messages))

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        reply = self._reply(messages)

        def words() -> Any:
            said = ""
            for word in (reply.content or "").split(" "):
                delta = word if not said else f" {word}"
                said += delta
                blocks = [
                    TextBlock(text=said),
                    *(block for block in reply.blocks if not isinstance(block, TextBlock)),
                ]
                message = ChatMessage(
                    role=reply.role, blocks=blocks, additional_kwargs=reply.additional_kwargs
                )
                yield ChatResponse(message=message, delta=delta)

        return words()

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self.chat(messages)

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        async def words() -> Any:
            for response in self.stream_chat(messages):
                yield response

        return words()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        reply = self._reply([ChatMessage(role="user", content=prompt)])
        return CompletionResponse(text=reply.content or "")

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return self.complete(prompt)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _prepare_chat_with_tools(self, tools: Any, **kwargs: Any) -> dict[str, Any]:
        user, history = kwargs.get("user_msg"), kwargs.get("chat_history") or []
        return {"messages": [*history, *([user] if user else [])]}

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        return [
            ToolSelection(
                tool_id=block.tool_call_id or "", tool_name=block.tool_name, tool_kwargs=block.tool_kwargs
            )
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]


class LetterEmbedding(BaseEmbedding):
    """Counts letters: equal texts have equal vectors. Counts the queries it embeds, too."""

    asked: int = 0

    def _get_text_embedding(self, text: str) -> list[float]:
        return [1.0, *(float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz")]

    def _get_query_embedding(self, query: str) -> list[float]:
        self.asked += 1
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


@pytest.fixture(scope="session", autouse=True)
def _loop_for_sync_calls():
    """LlamaIndex's sync calls take the main thread's event loop, or make one and never close it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path):
    with Memory.open(path) as opened:
        yield opened


@pytest.fixture
def chat(memory):
    """Makes the adapter of one session, of alice's session s1 unless told otherwise."""

    def make(session_id="s1", user_id="alice", **settings):
        return MemkitMemory.from_defaults(memory=memory, session_id=session_id, user_id=user_id, **settings)

    return make


@pytest.fixture
def scripted():
    return ScriptedLLM


@pytest.fixture
def letters():
    return LetterEmbedding()


@pytest.fixture
def said():
    """(role, text) of messages, as people read them."""

    def read(messages):
        return [(message.role.value, message.content or "") for message in messages]

    return read


@pytest.fixture
def parcel():
    """The turn with two calls that windows are easily cut wrong in."""
    calls = [
        ToolCallBlock(tool_call_id="k1", tool_name="ship", tool_kwargs={"parcel": 12}),
        ToolCallBlock(tool_call_id="k2", tool_name="label", tool_kwargs={}),
    ]
    return [
        ChatMessage(role="user", content="ship parcel 12"),
        ChatMessage(role="assistant", blocks=calls),
        ChatMessage(role="tool", content="sent", additional_kwargs={"tool_call_id": "k1"}),
        ChatMessage(role="tool", content="printed", additional_kwargs={"tool_call_id": "k2"}),
        ChatMessage(role="assistant", content="shipped"),
        ChatMessage(role="user", content="thanks"),
    ]


@pytest.fixture
def check_valid():
    """Fails unless a chat API would take the messages."""

    def check(messages):
        rest = [m for m in messages if m.role not in (MessageRole.SYSTEM, MessageRole.DEVELOPER)]
        assert not rest or rest[0].role is MessageRole.USER
        waiting: list[str] = []
        for message in rest:
            if message.role is MessageRole.TOOL:
                waiting.remove(message.additional_kwargs["tool_call_id"])
                continue
            assert not waiting, f"calls {waiting} have no result"
            waiting = [b.tool_call_id for b in message.blocks if isinstance(b, ToolCallBlock)]
        assert not waiting

    return check


@pytest.fixture
def store(memory):
    """Alice's vector store."""
    return MemkitVectorStore(memory=memory, scope=Scope.user("alice"))


@pytest.fixture
def ask(store):
    """(id, similarity) of what a query finds, nearest to 0 degrees unless told otherwise."""

    def found(text="owl", degrees=0, top_k=10, of=None, **settings):
        query = VectorStoreQuery(
            query_embedding=[math.cos(math.radians(degrees)), math.sin(math.radians(degrees))],
            query_str=text,
            similarity_top_k=top_k,
            **settings,
        )
        result = (of or store).query(query)
        assert [one.node_id for one in result.nodes] == result.ids
        assert len(result.ids) == len(result.similarities) == len(set(result.ids))
        assert all(0 <= alike <= 1 for alike in result.similarities)
        return list(zip(result.ids, result.similarities, strict=True))

    return found
