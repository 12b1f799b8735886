"""The verbs on records at full size: how long they take, and how long they hold up other threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.plan import DIMENSION, Plan
from benchmarks.raw import RawEngine, RawTable, read_vectors
from benchmarks.report import MILLISECONDS, Line, Timings, at_most, interleaved, ratio, within
from benchmarks.texts import Texts
from memkit_core import Memory, Scope
from memkit_core.embedders.wordllama import WordLlamaEmbedder
from memkit_core.ports import Matrix, Vector
from memkit_core.times import utc_now

_TICK = 0.001
_REPEATS = 3
_LONGEST_GAP = 50.0


class TimedEmbedder:
    """The built-in embedder, with the seconds that documents took."""

    def __init__(self) -> None:
        """Nothing is loaded yet."""
        self._embedder = WordLlamaEmbedder()
        self.model, self.revision = self._embedder.model, self._embedder.revision
        self.fast = self._embedder.fast
        self.seconds = 0.0

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed_documents`."""
        started = time.perf_counter()
        vectors = self._embedder.embed_documents(texts)
        self.seconds += time.perf_counter() - started
        return vectors

    def embed_query(self, text: str) -> Vector:
        """See `Embedder.embed_query`."""
        return self._embedder.embed_query(text)


def write_vectors(plan: Plan) -> None:
    """Embed every record for the bare engine."""
    embedder = WordLlamaEmbedder()
    with plan.vectors.open("wb") as file:
        for _, texts in plan.texts():
            embedder.embed_documents(texts).tofile(file)


def measured_records(plan: Plan) -> list[Line]:
    """Time recall, add and update in a store that is full already; the lines of the table."""
    embedder = TimedEmbedder()
    engine = RawEngine(plan.raw, DIMENSION)
    with Memory.open(plan.store, embedder=embedder) as memory:
        lines = [*_recall(plan, memory, engine), *_add(plan, memory, embedder), *_update(plan, memory)]
        engine.close()
        return lines + _gaps(plan, memory)


def _recall(plan: Plan, memory: Memory, engine: RawEngine) -> list[Line]:
    questions = plan.questions(100)
    vectors = read_vectors(plan.vectors, first=0, count=len(questions), dimension=DIMENSION)
    for question in questions:  # Afterwards every query embedding is in the cache.
        memory.recall(question, scope=plan.scope)
    many, then = len(questions), utc_now()
    dense, keyword, ours, as_of = interleaved(
        [
            lambda i: engine.dense(plan.asked, vectors[i % many]),
            lambda i: engine.keyword(plan.asked, questions[i % many]),
            lambda i: memory.recall(questions[i % many], scope=plan.scope),
            lambda i: memory.recall(questions[i % many], scope=plan.scope, as_of=then),
        ],
        plan.rounds,
    )
    return [
        within("recall, top 10, one user's records", ours, p50=12, p95=28, p99=55),
        Line(name="  the raw engine, dense", measured=str(dense)),
        Line(name="  the raw engine, sparse BM25", measured=str(keyword)),
        ratio("  recall p50 to raw dense + raw BM25", ours.p50, dense.p50 + keyword.p50, 2),
        ratio("  recall p99 to its own p50", ours.p99, ours.p50, 4),
        ratio("  recall as of a moment to plain recall, p50", as_of.p50, ours.p50, 1.5),
    ]


def _add(plan: Plan, memory: Memory, embedder: TimedEmbedder) -> list[Line]:
    texts = Texts(seed=3).sentences(plan.rounds + 10)
    table = RawTable(plan.folder / "bare.db")
    embedding: list[float] = []

    def add(number: int) -> None:
        before = embedder.seconds
        memory.add(texts[number], scope=plan.scope)
        embedding.append(embedder.seconds - before)

    bare, whole = interleaved([lambda i: table.append(0, texts[i]), add], plan.rounds)
    table.close()
    spent = np.array(whole.seconds) - np.array(embedding[-len(whole.seconds) :])
    ours = Timings([float(seconds) for seconds in spent])
    return [
        within("add, with its embedding", whole, p50=45, p95=120, p99=210),
        Line(name="  without its embedding", measured=str(ours)),
        Line(name="  commit of one row, plain SQLite", measured=str(bare)),
        ratio("  add p50 to a commit", ours.p50, bare.p50, 20),
    ]


def _update(plan: Plan, memory: Memory) -> list[Line]:
    ids = [record.id for record in memory.list_records(scope=plan.scope, limit=100)]
    texts = Texts(seed=4).sentences(plan.rounds + 10)
    (timings,) = interleaved(
        [lambda i: memory.update(ids[i % len(ids)], scope=plan.scope, content=texts[i])], plan.rounds
    )
    return [within("update of the content, with its embedding", timings, p50=3, p95=8, p99=15)]


# ----------------------------------------------------------------------------- other threads


def _gaps(plan: Plan, memory: Memory) -> list[Line]:
    """How long a thread that wants to run every millisecond had to wait while each verb ran."""
    texts, questions = Texts(seed=5), plan.questions(50, seed=6)
    crowd = Scope.user("one-of-the-crowd")

    def recalls() -> None:
        for question in questions:
            memory.recall(question, scope=plan.scope)

    def adds() -> None:
        for text in texts.sentences(50):
            memory.add(text, scope=plan.scope)

    sentences = [texts.sentences(plan.records // plan.users) for _ in range(_REPEATS)]
    calls: list[tuple[str, Callable[[], object]]] = [
        ("nothing", lambda: time.sleep(0.5)),
        ("recall, 50 times", recalls),
        ("add, 50 times", adds),
        ("add_many of one user's records", lambda: memory.add_many(sentences.pop(), scope=crowd)),
        ("list_records of 1,000", lambda: memory.list_records(scope=plan.scope, limit=1000)),
        ("delete of one user's records", lambda: memory.delete(scope=crowd)),
        ("flush", memory.flush),
    ]
    # In rounds, so that each round deletes what it added. The shortest of a call's longest gaps is
    # shown: other work on the machine can only lengthen them.
    rounds = [[_longest_gap(call) for _, call in calls] for _ in range(_REPEATS)]
    return [
        at_most(f"other threads wait during: {name}", min(gaps), _LONGEST_GAP, unit="ms")
        for (name, _), *gaps in zip(calls, *rounds, strict=True)
    ]


def _longest_gap(call: Callable[[], object]) -> float:
    """The longest pause of a thread that ticks every millisecond, in milliseconds."""
    stop = threading.Event()
    longest = 0.0

    def tick() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(_TICK)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        call()
    finally:
        stop.set()
        ticker.join()
    return longest * MILLISECONDS
