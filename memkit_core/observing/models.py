"""The calls of models, seen where they are made."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from memkit_core.observing.observer import Observer, current

if TYPE_CHECKING:
    from memkit_core.observing.spans import OpenSpan


class _Call:
    """A `with` block in which a model is called; of nobody's business outside of a memory."""

    __slots__ = ("_local", "_model", "_observer", "_of", "_span")

    operation = ""

    def __init__(self, model: str, *, of: object, local: bool = False) -> None:
        """Of the model of this name.

        Args:
            model: its name.
            of: the object that is called, from whose package the provider is told.
            local: whether it is known to run in this process, as the built-in embedder does.
        """
        self._model, self._of, self._local = model, of, local
        self._observer: Observer | None = None
        self._span: OpenSpan | None = None

    def __enter__(self) -> Self:
        """It begins."""
        self._observer = observer = current()
        if observer is not None and observer.spans is not None:
            self._span = observer.spans.model(self.operation, self._model, of=self._of, local=self._local)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It ended."""
        if self._observer is not None:
            self._count(self._observer, failed=error is not None)
        if self._span is not None:
            self._span.close(error)

    def _count(self, observer: Observer, *, failed: bool) -> None:
        raise NotImplementedError


class EmbeddingCall(_Call):
    """One call of an embedder."""

    __slots__ = ("_texts",)

    operation = "embeddings"

    def __init__(self, model: str, *, of: object, texts: int, local: bool) -> None:
        """With so many texts."""
        super().__init__(model, of=of, local=local)
        self._texts = texts

    def _count(self, observer: Observer, *, failed: bool) -> None:
        observer.counting.embedded(self._texts, failed=failed)
        if self._span is not None:
            self._span.set("memkit.count", self._texts)


class ChatCall(_Call):
    """One call of a chat model."""

    __slots__ = ()

    operation = "chat"

    @property
    def seen(self) -> bool:
        """Whether anybody counts its tokens."""
        return self._observer is not None

    def reported(self, read: int, written: int) -> None:
        """The model says how many tokens it read and wrote."""
        if self._observer is not None:
            self._observer.counting.chatted(input_tokens=read, output_tokens=written)
        if self._span is not None:
            self._span.set("gen_ai.usage.input_tokens", read)
            self._span.set("gen_ai.usage.output_tokens", written)

    def estimated(self, read: int, written: int) -> None:
        """It does not say, and they are about so many: in no span, where usage is what a model reports."""
        if self._observer is not None:
            self._observer.counting.chatted(
                estimated_calls=1, estimated_input_tokens=read, estimated_output_tokens=written
            )

    def _count(self, observer: Observer, *, failed: bool) -> None:
        observer.counting.chatted(**{"failed" if failed else "succeeded": 1})
