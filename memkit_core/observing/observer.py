"""`Observer`: counts what the verbs of a memory do, and traces it where that is asked for."""

from __future__ import annotations

import contextvars
import functools
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from memkit_core.observing.counters import Counting

if TYPE_CHECKING:
    from memkit_core.observing.spans import Spans
    from memkit_core.observing.verbs import Verb
    from memkit_core.settings import Tracing

T = TypeVar("T")
R = TypeVar("R")


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


class _Current(threading.local):
    """The observer of the memory that a thread works for.

    No context variable: NumPy looks for one of its own at each step of a recall, which takes longer in a context
    that is not empty (5 µs of 700).
    """

    observer: Observer | None = None


_current = _Current()


def current() -> Observer | None:
    """The observer of the memory that this thread works for."""
    return _current.observer


def use(observer: Observer | None) -> None:
    """Have this thread, which a memory started, work for it from now on."""
    _current.observer = observer


def carried(work: Callable[[], object]) -> Callable[[], None]:
    """`work` for a thread of its own: for the same memory, and in the context of the caller."""
    observer, context = _current.observer, contextvars.copy_context()

    def run() -> None:
        use(observer)
        context.run(work)

    return run


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
    counted = _counted(method, verb) if verb.asks else _tallied(method, verb)
    seen_by_spans_alone = not (verb.asks or verb.writes)

    @functools.wraps(method)
    def call(self: object, *args: object, **kwargs: object) -> R:
        observer: Observer | None = getattr(self._store, "observer", None)  # type: ignore[attr-defined]  # see `observed`
        if observer is None:
            return method(self, *args, **kwargs)
        if observer.spans is None:
            if seen_by_spans_alone:
                return method(self, *args, **kwargs)
            return counted(observer, self, *args, **kwargs)
        with observer.spans.verb(verb, method, self, args, kwargs) as span:
            answer = counted(observer, self, *args, **kwargs)
            span.answered(answer)
            return answer

    return call


def _tallied(method: Callable[..., R], verb: Verb) -> Callable[..., R]:
    """`method`, which calls no model; counted if it writes."""
    name, writes = verb.name, verb.writes

    def call(observer: Observer, self: object, *args: object, **kwargs: object) -> R:
        try:
            answer = method(self, *args, **kwargs)
        except BaseException:
            if writes:
                observer.counting.wrote(name, failed=True)
            raise
        if writes:
            observer.counting.wrote(name, failed=False)
        return answer

    return call


def _counted(method: Callable[..., R], verb: Verb) -> Callable[..., R]:
    """`method`, counted, and what it asks of models for this observer."""
    name, writes, recalls = verb.name, verb.writes, verb.recalls

    def call(observer: Observer, self: object, *args: object, **kwargs: object) -> R:
        before, _current.observer = _current.observer, observer
        started = time.perf_counter()
        try:
            answer = method(self, *args, **kwargs)
        except BaseException:
            if writes:
                observer.counting.wrote(name, failed=True)
            elif recalls:
                observer.counting.recall_failed()
            raise
        else:
            if writes:
                observer.counting.wrote(name, failed=False)
            elif recalls:
                observer.counting.recalled(time.perf_counter() - started, getattr(answer, "missing", ()))
            return answer
        finally:
            _current.observer = before

    return call
