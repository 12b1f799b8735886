"""The LlamaIndex part of `memkit demo`: a chat engine whose memory is memkit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import CustomLLM

from llamaindex_memkit.memory import MemkitMemory
from memkit_core import Memory, MissingDependencyError, ModelError, Scope
from memkit_core.cli.demo_screen import Recalled, Screen, real_model, stand_in_answer
from memkit_core.conversation.context import TurnContext

SESSION = "today, in LlamaIndex"

_SYSTEM = "Answer in one sentence from what you remember of earlier conversations."

Answer = Callable[[Sequence[ChatMessage]], str]


class ShownMemory(MemkitMemory):
    """A `MemkitMemory` that shows what it recalls for the model."""

    _screen: Screen | None = PrivateAttr(default=None)

    def show_on(self, screen: Screen) -> None:
        """From now on, show it there."""
        self._screen = screen

    def _context(self, query: str | None, max_tokens: int) -> TurnContext:
        began = time.perf_counter()
        context = super()._context(query, max_tokens)
        if self._screen is not None:
            milliseconds = (time.perf_counter() - began) * 1000
            self._screen.recalled(map(Recalled.of, context.hits), milliseconds=milliseconds)
        return context


class DemoLLM(CustomLLM):
    """A LlamaIndex model around a function from messages to text."""

    model: str
    _answer: Answer = PrivateAttr()

    def __init__(self, *, model: str, answer: Answer) -> None:
        """Answer with `answer` under the name `model`."""
        super().__init__(model=model)
        self._answer = answer

    @property
    def metadata(self) -> LLMMetadata:
        """A chat model with the default context window."""
        return LLMMetadata(model_name=self.model, is_chat_model=True)

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        """The answer to the messages."""
        said = ChatMessage(role=MessageRole.ASSISTANT, content=self._answer(messages))
        return ChatResponse(message=said)

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:  # noqa: ARG002, FBT001, FBT002 - the signature is LlamaIndex's
        """The answer to a prompt."""
        return CompletionResponse(text=self._answer([ChatMessage(role=MessageRole.USER, content=prompt)]))

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponseGen:  # noqa: FBT001, FBT002 - as above
        """The answer to a prompt, in one piece."""
        yield self.complete(prompt, formatted)


def answer(memory: Memory, *, user: Scope, questions: Sequence[str], screen: Screen) -> None:
    """Ask the chat engine each question in one new session of `user`, and show what happens.

    Raises:
        MissingDependencyError: a key is set and langchain-openai is not installed.
        ModelError: the model did not answer.
    """
    name = real_model()
    shown = ShownMemory.from_defaults(memory=memory, session_id=SESSION, user_id=user)
    shown.show_on(screen)
    engine = SimpleChatEngine.from_defaults(llm=_model(name), memory=shown, system_prompt=_SYSTEM)
    for question in questions:
        screen.question(question)
        screen.answer(str(engine.chat(question)), model=name)


def _model(name: str | None) -> DemoLLM:
    """The stand-in without a key; else the model that the LangChain part uses, so one package will do."""
    if name is None:
        return DemoLLM(
            model="memkit-stand-in",
            answer=lambda messages: stand_in_answer("\n".join(message.content or "" for message in messages)),
        )
    try:
        from langchain_openai import ChatOpenAI
        from openai import OpenAIError
    except ModuleNotFoundError as error:
        raise MissingDependencyError("langchain-openai", extra="openai") from error
    chat = ChatOpenAI(model=name, temperature=0)

    def answered(messages: Sequence[ChatMessage]) -> str:
        prompt = [(message.role.value, message.content or "") for message in messages]
        try:
            return str(chat.invoke(prompt).text)
        except OpenAIError as error:
            raise ModelError(str(error), model=name) from error

    return DemoLLM(model=name, answer=answered)
