"""`Observer`: counts what the verbs of a memory do, and traces it where that is asked for."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from memkit_core.observing.counters import Counting

if TYPE_CHECKING:
    from memkit_core.observing.spans import Spans
    from memkit_core.observing.verbs import Verb
    from memkit_core.settings import Tracing

T = TypeVar("T")
R = TypeVar("R")

_now = time.perf_counter


class Observer:
    """Of one memory. Thread-safe; holds nothing of what it sees but numbers.

    Attributes:
        counting: the numbers.
        spans: what opens spans, None without tracing.
    """

    __slots__ = ("counting", "spans")

    def __init__(self, tracing: Tracing | None = None) -> None:
        """Nothing was seen yet.

        Raises:
            MissingDependencyError: `tracing` without the extra `otel`.
        """
        self.counting = Counting()
        self.spans: Spans | None = None
        if tracing is not None:
            # Here, so that OpenTelemetry is imported by those alone who trace.
            from memkit_core.observing.spans import Spans

            self.spans = Spans(tracing)

    def succeeded(self, verb: Verb, seconds: float, answer: object) -> None:
        """A verb returned."""
        if verb.writes:
            self.counting.wrote(verb.name, failed=False)
        elif verb.recalls:
            self.counting.recalled(seconds, getattr(answer, "missing", ()))

    def failed(self, verb: Verb) -> None:
        """A verb raised."""
        if verb.writes:
            self.counting.wrote(verb.name, failed=True)
        elif verb.recalls:
            self.counting.recall_failed()


_current: ContextVar[Observer | None] = ContextVar("memkit_observer", default=None)


def current() -> Observer | None:
    """The observer of the memory that this thread or task works for."""
    return _current.get()


def use(observer: Observer | None) -> None:
    """Have this thread, which a memory started, work for it from now on."""
    _current.set(observer)


def observer_of(store: object) -> Observer | None:
    """The observer of the memory whose `StoreHandle` it is; None for a store by itself."""
    found: Observer | None = getattr(store, "observer", None)
    return found


def observed(verbs: Mapping[str, Verb]) -> Callable[[type[T]], type[T]]:
    """A decorator of a class whose `_store` is that of a memory: has these methods of it counted and traced."""

    def decorate(kind: type[T]) -> type[T]:
        for name, verb in verbs.items():
            setattr(kind, name, _observed(vars(kind)[name], verb))
        return kind

    return decorate


def _observed(method: Callable[..., R], verb: Verb) -> Callable[..., R]:
    seen_by_spans_only = not verb.asks

    @functools.wraps(method)
    def call(self: object, *args: object, **kwargs: object) -> R:
        observer = observer_of(self._store)  # type: ignore[attr-defined]  # see `observed`
        if observer is None or (seen_by_spans_only and observer.spans is None):
            return method(self, *args, **kwargs)
        span = None if observer.spans is None else observer.spans.verb(verb, method, self, args, kwargs)
        token = _current.set(observer)
        started = _now()
        try:
            answer = method(self, *args, **kwargs)
        except BaseException as error:
            observer.failed(verb)
            if span is not None:
                span.failed(error)
            raise
        else:
            observer.succeeded(verb, _now() - started, answer)
            if span is not None:
                span.answered(answer)
            return answer
        finally:
            _current.reset(token)
            if span is not None:
                span.end()

    return call
