"""Recall over conversations, with all that looks at what stands around a turn, beside the raw engine."""

from __future__ import annotations

from benchmarks.plan import DIMENSION, Plan
from benchmarks.raw import RawEngine, read_vectors
from benchmarks.report import Line, interleaved, ratio
from memkit_core import Memory, Message, Role, Scope
from memkit_core.sequences import chunked

_TURNS_OF_A_SESSION = 20
_SPEAKERS = ("Ann", "Bob")


def measured_turns(plan: Plan) -> list[Line]:
    """Time recall in one user's turns of a full store; the raw engine holds as many points of the same texts."""
    questions = plan.questions(100)
    vectors = read_vectors(plan.vectors, first=0, count=len(questions), dimension=DIMENSION)
    many = len(questions)
    with Memory.open(plan.folder / "turns.db") as memory:
        for user, texts in plan.texts():
            for number, said in enumerate(chunked(texts, _TURNS_OF_A_SESSION)):
                turns = [
                    Message(role=Role.USER, speaker=_SPEAKERS[place % 2], text=text)
                    for place, text in enumerate(said)
                ]
                memory.sessions.append(turns, scope=Scope.session(f"session-{number}", user=user))
        memory.flush()
        for question in questions:  # Afterwards every query embedding is in the cache.
            memory.recall(question, scope=plan.scope, include_messages=True)
        engine = RawEngine(plan.raw, DIMENSION)
        dense, keyword, ours = interleaved(
            [
                lambda i: engine.dense(plan.asked, vectors[i % many]),
                lambda i: engine.keyword(plan.asked, questions[i % many]),
                lambda i: memory.recall(questions[i % many], scope=plan.scope, include_messages=True),
            ],
            plan.rounds,
        )
        engine.close()
    return [
        Line(name="recall, top 10, one user's turns in sessions of 20", measured=str(ours)),
        ratio("  p50 to raw dense + raw BM25", ours.p50, dense.p50 + keyword.p50, 3),
    ]
