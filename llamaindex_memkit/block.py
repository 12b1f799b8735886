"""`MemkitMemoryBlock`: memkit inside LlamaIndex's own `Memory`."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from pydantic import ConfigDict, Field, InstanceOf

from llamaindex_memkit.convert import to_message
from llamaindex_memkit.recalled import without_blocks
from memkit_core import InvalidInputError, Memory, Scope


class MemkitMemoryBlock(BaseMemoryBlock[str]):
    """Long-term memory of one user for `Memory.from_defaults(memory_blocks=[...])` of LlamaIndex.

    Instantiate:
        ```python
        block = MemkitMemoryBlock(name="memkit", memory=memory, user=Scope.user("alice"))
        chat_memory = Memory.from_defaults(session_id="s1", memory_blocks=[block])
        ```

    What it gives is the text that `Memory.turn_context` adds to a prompt for the newest user
    message: notes, profile, summary, recalled memories and earlier turns, fenced as data; "" when there is
    nothing. LlamaIndex hands a block only the messages that no longer fit in its short-term memory.
    They are appended to the session here and recalled from then on; what is lost before that is
    not, so use `MemkitMemory` where every message is to be kept.

    One block may serve several sessions: the session is that of the `Memory` that asks. Messages
    and arguments are never changed. Copies share the memory.

    Attributes:
        memory: where to recall from and to store; the caller closes it. Not part of dumps.
        user: whose memory it is.
        session_id: the session for a caller that names none.
        top_k: the most memories and turns recalled, beside 3 episodes and 2 skills.
        max_tokens: the most tokens of the text.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = "memkit"
    memory: InstanceOf[Memory] = Field(exclude=True, repr=False)
    user: InstanceOf[Scope]
    session_id: str | None = None
    top_k: int = Field(default=5, gt=0)
    max_tokens: int = Field(default=4000, gt=0)

    async def aput(
        self,
        messages: list[ChatMessage],
        from_short_term_memory: bool = False,  # noqa: FBT001, FBT002 - the signature is LlamaIndex's
        session_id: str | None = None,
    ) -> None:
        """Append messages to the session, all or nothing.

        The session is named here and not, as LlamaIndex does it, in the messages, which other blocks
        read and change at the same time.

        Raises:
            InvalidInputError: no session is named, or a message that cannot be stored.
        """
        if not from_short_term_memory or self.accept_short_term_memory:
            await asyncio.to_thread(self._append, messages, self._session(session_id))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await self.aput(messages)

    async def _aget(
        self, messages: list[ChatMessage] | None = None, *, session_id: str | None = None, **_: Any
    ) -> str:
        asked = next((m.content for m in reversed(messages or ()) if m.role == MessageRole.USER), None)
        return await asyncio.to_thread(self._added, asked or "", self._session(session_id))

    def _added(self, query: str, session: Scope) -> str:
        context = self.memory.turn_context(
            session, query, memories=self.top_k, recent=0, include_messages=True, max_tokens=self.max_tokens
        )
        return context.added

    def _append(self, messages: list[ChatMessage], session: Scope) -> None:
        self.memory.sessions.append(map(to_message, without_blocks(messages)), scope=session)

    def _session(self, session_id: str | None) -> Scope:
        named = session_id or self.session_id
        if named is None:
            raise InvalidInputError("MemkitMemoryBlock: no session is named; give session_id=")
        return Scope.session(named, user=self.user)
