"""From what a user gives to a `Reranker`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from memkit_core.errors import InvalidInputError, ModelError, shown
from memkit_core.ports import Reranker

_OF_FRAMEWORKS = {
    "compress_documents": "langchain_memkit.compressor_reranker",
    "postprocess_nodes": "llamaindex_memkit.postprocessor_reranker",
}


def resolve_reranker(given: object) -> Reranker:
    """The `Reranker` for a cross-encoder of another library, or a function from query and texts to scores.

    An object with `rerank` (fastembed's `TextCrossEncoder`, or your own) is called by that, one with
    `predict` (sentence-transformers' `CrossEncoder`) with pairs of query and text, else it is called
    as a function. The reranker that comes back raises `ModelError` when the given one fails, or does
    not answer with one finite number a text. A LangChain compressor is made one by
    `langchain_memkit.compressor_reranker`, a LlamaIndex postprocessor by
    `llamaindex_memkit.postprocessor_reranker`.

    Raises:
        InvalidInputError: it is a class, an `async` function, a compressor or postprocessor as it is, or can be
            called in none of these ways.
    """
    if isinstance(given, _Checked):
        return given
    if isinstance(given, type):
        raise InvalidInputError(
            f"a reranker is an object; got the class {given.__name__}, give {given.__name__}(...)"
        )
    for method, wrap in _OF_FRAMEWORKS.items():
        # Some have a `rerank` too, which takes other arguments.
        if callable(getattr(given, method, None)):
            raise InvalidInputError(f"{type(given).__name__} orders documents: give {wrap}(...) around it")
    rerank, predict = getattr(given, "rerank", None), getattr(given, "predict", None)
    call = next((one for one in (rerank, predict, given) if callable(one)), None)
    if inspect.iscoroutinefunction(call):
        raise InvalidInputError(
            f"a reranker answers at once, also for AsyncMemory, which waits in a thread; {shown(given)} is async"
        )
    if callable(rerank):
        return _Checked(rerank, given)
    if callable(predict):
        return _Checked(lambda query, texts: predict([(query, text) for text in texts]), given)
    if callable(given):
        return _Checked(given, given)
    raise InvalidInputError(
        "a reranker is a function from query and texts to scores, or an object with rerank or predict; got "
        f"{type(given).__name__} {shown(given)}"
    )


class _Checked:
    """A foreign reranker behind the port."""

    def __init__(self, call: Callable[[str, list[str]], Any], given: object) -> None:
        self._call = call
        self._name = str(
            getattr(given, "model_name", None) or getattr(given, "__name__", type(given).__name__)
        )

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker`."""
        try:
            answer = self._call(query, list(texts))
            # Some answer one by one, and fail in between.
            given = list(answer) if isinstance(answer, Iterable) else [answer]
            scores = np.array([float(score) for score in given])
        except ModelError:
            raise
        except Exception as error:  # a vendor's model raises what it likes
            raise ModelError(f"{type(error).__name__}: {error}", model=self._name) from error
        if scores.shape != (len(texts),) or not np.isfinite(scores).all():
            raise ModelError(
                f"answered {len(texts)} texts with {shown(answer)}, not with a finite number each",
                model=self._name,
            )
        return [float(score) for score in scores]
