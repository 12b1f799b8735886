"""What a memory did since it was opened, in numbers."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memkit_core.forks import start_over_in_children

WINDOW = 1024
"""Recalls whose durations are kept: enough for ten of them to lie above the 99th percentile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Calls that ended, by how.

    Attributes:
        succeeded: they returned.
        failed: they raised, bad arguments included.
    """

    succeeded: int = 0
    failed: int = 0

    @property
    def tried(self) -> int:
        """All that ended; one that runs is not counted yet."""
        return self.succeeded + self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long the newest recalls took, in milliseconds.

    The percentiles are over the last 1,024 recalls that returned, degraded ones included, however long ago
    they were, and by linear interpolation between the two nearest (NumPy's default, method 7 of Hyndman and Fan,
    The American Statistician 50, 1996).

    Attributes:
        recalls: how many these numbers are of.
        p50, p95, p99: that share of them took so long or less; None before the first.
    """

    recalls: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalls:
    """What was asked of chat models, and the tokens of it; tokens of a call that raised are not known.

    Attributes:
        succeeded, failed: calls, by whether a usable answer came.
        input_tokens, output_tokens: as the models reported them.
        estimated_calls: calls whose model reported no tokens, such as a plain function.
        estimated_input_tokens, estimated_output_tokens: of those, counted by `approximate_tokens` from prompt and
            answer; not part of the numbers above.
    """

    succeeded: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_calls: int = 0
    estimated_input_tokens: int = 0
    estimated_output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingCalls:
    """What was asked of embedders; what their cache knew is not among it.

    Attributes:
        succeeded, failed: calls, each of a batch of texts.
        texts: the texts of all of them.
    """

    succeeded: int = 0
    failed: int = 0
    texts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What one `Memory` of one process did since it was opened; nothing of it is stored.

    Counted when a call ends, so that every number stands for something that is over. Memories of one file count
    apart, each what was done through it; what its threads do in the background counts for it too. A forked
    child starts at zero, so that the numbers of several processes can be added up.

    Attributes:
        writes: by verb, such as `add` or `sessions.append`; verbs that were never called are left out. What calls
            another verb counts as that one: `promote_latest` as `promote`, `profiles.add` as `add_many`.
            `sessions.queue` is what the queue wrote, a try each.
        recalls: `recall`, `turn_memories`, and those of `turn_context`, which recalls up to three times a turn: for
            episodes, skills and the rest.
        recall_ms: how long they took.
        degraded: recalls by what was missing, see `RecallResult.missing`; one that misses two counts for both.
        chat: calls of chat models: formation, judges, summaries, titles, listwise reranking.
        embedding: calls of embedders.
    """

    writes: Mapping[str, Tally]
    recalls: Tally
    recall_ms: Latency
    degraded: Mapping[str, int]
    chat: ModelCalls
    embedding: EmbeddingCalls


class Counting:
    """Counts, from any thread; a forked child starts at zero.

    Stands in the way of every recall and write, where caches are cold: so it takes one plain lock, and what a
    fork needs is done at the fork.
    """

    def __init__(self) -> None:
        """All zero."""
        self._start_over()
        start_over_in_children(self, Counting._start_over)

    def _start_over(self) -> None:
        # A new one: a thread that is not in the child may hold the old one.
        self._lock = threading.Lock()
        # How many succeeded and failed, by verb and of recalls.
        self._writes: dict[str, list[int]] = {}
        self._recalls = [0, 0]
        self._seconds = deque[float](maxlen=WINDOW)
        self._degraded = Counter[str]()
        self._chat = Counter[str]()
        self._embedding = Counter[str]()

    def wrote(self, verb: str, *, failed: bool) -> None:
        """One more write by `verb`."""
        with self._lock:
            self._writes.setdefault(verb, [0, 0])[failed] += 1

    def recalled(self, seconds: float, missing: Iterable[str]) -> None:
        """One more recall that took so long."""
        with self._lock:
            self._recalls[0] += 1
            self._seconds.append(seconds)
            for leg in missing:
                self._degraded[leg] += 1

    def recall_failed(self) -> None:
        """One more recall that raised."""
        with self._lock:
            self._recalls[1] += 1

    def chatted(self, **numbers: int) -> None:
        """Add to fields of `ModelCalls`."""
        with self._lock:
            self._chat.update(numbers)

    def embedded(self, texts: int, *, failed: bool) -> None:
        """One more call of an embedder, with so many texts."""
        with self._lock:
            self._embedding["failed" if failed else "succeeded"] += 1
            self._embedding["texts"] += texts

    def read(self) -> Counters:
        """All numbers of one moment."""
        with self._lock:
            seconds = list(self._seconds)
            counters = Counters(
                writes={verb: _tally(ended) for verb, ended in self._writes.items()},
                recalls=_tally(self._recalls),
                recall_ms=Latency(),
                degraded=dict(self._degraded),
                chat=ModelCalls(**self._chat),
                embedding=EmbeddingCalls(**self._embedding),
            )
        return dataclasses.replace(counters, recall_ms=_latency(seconds))


def _tally(ended: Sequence[int]) -> Tally:
    return Tally(succeeded=ended[0], failed=ended[1])


def _latency(seconds: list[float]) -> Latency:
    if not seconds:
        return Latency()
    # Here, so that a memory which is never asked for its counters has no use for it.
    import numpy as np

    p50, p95, p99 = (float(one) * 1000 for one in np.percentile(seconds, (50, 95, 99)))
    return Latency(recalls=len(seconds), p50=p50, p95=p95, p99=p99)
