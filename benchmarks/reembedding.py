"""Another embedding model for all records, at the speed of the built-in one, while recall goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from benchmarks.plan import Plan
from benchmarks.report import Line, Timings
from memkit_core import Memory, Scope
from memkit_core.embedders import resolve_embedder
from memkit_core.ports import Matrix, Vector

_RATE = 2_000
"""Records a second, at least."""


class _Renamed:
    """The built-in weights under another name: another model for memkit, at the same speed."""

    model, revision, fast = "benchmarks-renamed", "1", True

    def __init__(self) -> None:
        self._embedder = resolve_embedder(None)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return self._embedder.embed_query(text)


def measured_reembedding(plan: Plan) -> list[Line]:
    """All records of the plan, and the recalls of another thread meanwhile."""
    recalls, ended, missed = Timings(), threading.Event(), 0
    with Memory.open(plan.folder / "reembedding.db") as memory:
        for user, texts in plan.texts():
            memory.add_many(texts, scope=Scope.user(user))
        while not (memory.flush() and memory.capabilities.index):
            time.sleep(0.01)

        def ask() -> None:
            nonlocal missed
            for question in plan.questions(100_000):
                if ended.is_set():
                    return
                with recalls.once():
                    missed += bool(memory.recall(question, scope=plan.scope).missing - {"index"})
                time.sleep(0.01)

        asking = threading.Thread(target=ask)
        asking.start()
        began = time.perf_counter()
        report = memory.upkeep.reembed(_Renamed())
        seconds = time.perf_counter() - began
        ended.set()
        asking.join()
    rate = report.embedded / seconds
    return [
        Line(
            name=f"another embedding model for {report.embedded:,} records, old vectors and index dropped",
            measured=f"{seconds:.1f} s, {rate:,.0f} a second",
            limit=f">= {_RATE:,} a second",
            holds=rate >= _RATE,
        ),
        Line(
            name="  recall of another thread meanwhile",
            measured=f"{recalls}, {len(recalls.seconds):,} recalls, longest {max(recalls.seconds):.3f} s",
            limit="all by both legs",
            holds=missed == 0,
        ),
    ]
