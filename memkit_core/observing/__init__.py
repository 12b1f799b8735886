"""What a memory does, counted and traced.

A part of a memory names its verbs by `@observed(...)` on its class; the `Observer` of the memory stands on
its `StoreHandle`, which every part has. It counts each call, and with `Config.tracing` opens an OpenTelemetry
span for it. What a verb asks of a model is seen where the model is called (`EmbeddingCall`, `ChatCall`): the verb
leaves its observer with its thread, and the threads of a memory take it along by `use` and `carried`.
"""

from memkit_core.observing.counters import Counters, EmbeddingCalls, Latency, ModelCalls, Tally
from memkit_core.observing.models import ChatCall, EmbeddingCall
from memkit_core.observing.observer import Observer, carried, observed, observer_of, use

__all__ = [
    "ChatCall",
    "Counters",
    "EmbeddingCall",
    "EmbeddingCalls",
    "Latency",
    "ModelCalls",
    "Observer",
    "Tally",
    "carried",
    "observed",
    "observer_of",
    "use",
]
