"""OpenTelemetry spans of a memory: what was done and how it ended, never what about.

No content and no message of an exception is ever in a span, and no id unless `Tracing.ids` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from memkit_core.errors import MissingDependencyError
from memkit_core.models import DeleteReceipt, MemoryRecord
from memkit_core.observing.providers import provider_of
from memkit_core.observing.verbs import RETRIEVAL, Verb
from memkit_core.scope import Scope, ScopeKind
from memkit_core.text.clean import storable

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from memkit_core.settings import Tracing

_NAME = "memkit"
_LARGEST = 2**63 - 1
"""The largest number that an exporter can send."""
_COUNT, _RECORDS, _RECORD_ID = "memkit.count", "gen_ai.memory.record.count", "gen_ai.memory.record.id"


class OpenSpan:
    """A span that is the current one of its thread until `close`."""

    __slots__ = ("_counted_as", "_ids", "_span", "_token")

    def __init__(self, span: Span, *, counted_as: str = _COUNT, ids: bool = False) -> None:
        """Make `span` the current one; `counted_as` is the attribute of how many an answer is."""
        from opentelemetry import context, trace

        self._span, self._counted_as, self._ids = span, counted_as, ids
        self._token = context.attach(trace.set_span_in_context(span))

    def set(self, attribute: str, value: bool | int | str | Sequence[str]) -> None:  # noqa: FBT001 - a value, no switch
        """Set an attribute."""
        self._span.set_attribute(attribute, value)

    def answered(self, answer: object) -> None:
        """It returned this."""
        if not self._span.is_recording():
            return
        number = _number(answer)
        if number is not None:
            self.set(self._counted_as, number)
        missing = getattr(answer, "missing", None)
        if isinstance(missing, frozenset):
            self.set("memkit.missing", sorted(missing))
            self.set("memkit.degraded", bool(missing))
        if self._ids and isinstance(answer, MemoryRecord):
            self.set(_RECORD_ID, answer.id)

    def close(self, error: BaseException | None) -> None:
        """It is over, and the span before is the current one again.

        Of what was raised only the type is told: the message may quote what was stored or asked.
        """
        from opentelemetry import context
        from opentelemetry.trace import Status, StatusCode

        if error is not None:
            kind = type(error)
            home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            self.set("error.type", home + kind.__qualname__)
            self._span.set_status(Status(StatusCode.ERROR))
        context.detach(self._token)
        self._span.end()

    def __enter__(self) -> Self:
        """The span itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See `close`."""
        self.close(error)


class Spans:
    """Opens the spans of a memory, with the tracer provider that the application has set."""

    def __init__(self, tracing: Tracing) -> None:
        """Trace as told.

        Raises:
            MissingDependencyError: the extra `otel` is not installed.
        """
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise MissingDependencyError("opentelemetry-api", extra="otel") from error
        self._ids = tracing.ids
        self._tracer = trace.get_tracer(_NAME)
        self._inside, self._outside = trace.SpanKind.INTERNAL, trace.SpanKind.CLIENT

    def verb(
        self,
        verb: Verb,
        method: Callable[..., object],
        part: object,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> OpenSpan:
        """The span of one call of a verb, in this process: its kind is INTERNAL."""
        attributes: dict[str, bool | float | str | Sequence[str]] = {"memkit.verb": verb.name}
        if verb.operation is not None:
            attributes["gen_ai.operation.name"] = verb.operation
        query = args[0] if verb.of_query else None
        scopes = _scopes(part, args, kwargs) or list[Scope](getattr(query, "scopes", ()))
        if scopes:
            attributes["memkit.scope.kinds"] = [*dict.fromkeys(scope.kind.value for scope in scopes)]
        top_k = kwargs.get("top_k", (getattr(method, "__kwdefaults__", None) or {}).get("top_k"))
        top_k = getattr(query, "top_k", top_k)
        # What the caller gave may be anything, a text too.
        if type(top_k) is int and abs(top_k) <= _LARGEST:
            attributes["gen_ai.request.top_k" if verb.operation == RETRIEVAL else "memkit.top_k"] = top_k
        if self._ids:
            attributes |= _ids(verb, scopes, args, kwargs)
        records = verb.operation is not None and verb.operation != RETRIEVAL
        span = self._tracer.start_span(
            verb.operation or f"memkit.{verb.name}", kind=self._inside, attributes=attributes
        )
        return OpenSpan(span, counted_as=_RECORDS if records else _COUNT, ids=self._ids and records)

    def model(self, operation: str, model: str, *, of: object, local: bool) -> OpenSpan:
        """The span of one call of a model, as the conventions have it."""
        attributes = {"gen_ai.operation.name": operation, "gen_ai.request.model": model}
        if (provider := provider_of(of)) is not None:
            attributes["gen_ai.provider.name"] = provider
        kind = self._inside if local else self._outside
        return OpenSpan(self._tracer.start_span(f"{operation} {model}", kind=kind, attributes=attributes))


def _scopes(part: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> list[Scope]:
    """The scopes that a call names, in its order; what is no scope is the verb's to refuse."""
    for given in (kwargs.get("scope", kwargs.get("session")), *args[:1], getattr(part, "scope", None)):
        named = [
            one for one in (given if isinstance(given, list | tuple) else (given,)) if isinstance(one, Scope)
        ]
        if named:
            return named
    return []


def _ids(
    verb: Verb, scopes: list[Scope], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> dict[str, str]:
    found = {}
    session = next((scope for scope in scopes if scope.kind is ScopeKind.SESSION), None)
    if session is not None:
        found["gen_ai.conversation.id"] = session.id
    record = kwargs.get("id", args[0] if args else None)
    if verb.names_a_record and isinstance(record, str):
        found[_RECORD_ID] = storable(record)
    return found


def _number(answer: object) -> int | None:
    """How many records, messages or hits an answer is."""
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        return len(answer)
    if isinstance(answer, MemoryRecord):
        return 1
    if isinstance(answer, DeleteReceipt):
        return answer.records
    hits = getattr(answer, "hits", None)
    return len(hits) if isinstance(hits, tuple) else None
