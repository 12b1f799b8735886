"""Whether a reopened memory holds what was acknowledged: everywhere, once, and whole."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from faults.embedders import HashEmbedder, vector_of
from faults.findings import Findings
from faults.work import State, word_of
from memkit_core import Config, Memory, Ranking, Scope, Status
from memkit_core.connect import Parts, connect
from memkit_core.models import MEMORIES, MESSAGES, Target, point_id
from memkit_core.times import utc_now

DENSE = Ranking(keyword=0.0)
KEYWORD = Ranking(dense=0.0)
QUIET = Config(disk_reserve=1)
_SAMPLE = 12
_ALIKE = 1e-3


@contextmanager
def opened(path: Path, embedder: HashEmbedder, config: Config = QUIET) -> Iterator[tuple[Memory, Parts]]:
    """The memory of a file, with its parts, to look into them."""
    parts = connect(path, config, embedder=embedder, embedding_model=None, clock=utc_now)
    with Memory(parts, config=config) as memory:
        yield memory, parts


def judge(
    path: Path, allowed: Sequence[State], *, seed: int, embedder: HashEmbedder | None = None
) -> Findings:
    """Open the file after a fault and compare every read path with what must be there.

    Args:
        path: the memory's file; nobody else has it open.
        allowed: the states that may be found, the acknowledged one first; the next may hold one more
            call, that had not returned yet.
        seed: chooses the rows that are asked for one by one.
        embedder: the writer's.
    """
    findings = Findings()
    with opened(path, embedder or HashEmbedder()) as (memory, parts):
        truth = _stored(memory, allowed, findings)
        _found_by_words(memory, parts, truth, findings)
        findings.expect(memory.flush(), f"flush left {memory.capabilities.outbox} waiting")
        _vectors(parts, truth, findings)
        _recalled(memory, truth, findings, random.Random(seed))  # noqa: S311 - a sample, no secret
    _files(path, truth, findings)
    return findings


def _stored(memory: Memory, allowed: Sequence[State], findings: Findings) -> State:
    """Compare records and messages with each allowed state; returns the one that is there, else the first."""
    scopes = {scope for state in allowed for scope, _ in state.ever.values()}
    records: dict[tuple[Scope, str], str] = {}
    turns: dict[tuple[Scope, str], str] = {}
    messages: dict[Scope, list[tuple[str, str]]] = {}
    for scope in scopes:
        _collect(memory, scope, MEMORIES, records, findings)
        if scope.kind == "session":
            _collect(memory, scope, MESSAGES, turns, findings)
            log = memory.sessions.read(scope=scope)
            said = [(str(message.id), message.text) for message in log]
            if said:
                messages[scope] = said
            positions = [message.position for message in log]
            findings.expect(positions == list(range(len(log))), f"{scope} has positions {positions}")
            session = memory.sessions.get(scope=scope)
            findings.expect((session.messages if session else 0) == len(log), f"{scope} counts {session}")
    spoken = {(scope, key): text for scope, log in messages.items() for key, text in log}
    findings.expect(turns == spoken, "turns and messages differ")
    for state in allowed:
        if (records, messages) == (state.records, {s: log for s, log in state.messages.items() if log}):
            return state
    _count(allowed[0], records, messages, findings)
    return allowed[0]


def _collect(
    memory: Memory, scope: Scope, space: str, found: dict[tuple[Scope, str], str], findings: Findings
) -> None:
    """Page through the rows of a scope into `found`."""
    cursor = None
    while True:
        page = memory.list_records(scope=scope, space=space, status=list(Status), limit=500, cursor=cursor)
        for record in page:
            findings.doubled += (scope, record.id) in found
            found[scope, record.id] = record.content
        if (cursor := page.cursor) is None:
            return


def _count(
    state: State,
    records: dict[tuple[Scope, str], str],
    messages: dict[Scope, list[tuple[str, str]]],
    findings: Findings,
) -> None:
    """Say how what is there differs from what was acknowledged."""
    lost = [key for key, text in state.records.items() if records.get(key) != text]
    extra = [key for key in records if key not in state.records]
    unheard = [
        m for session, log in state.messages.items() for m in log if m not in messages.get(session, [])
    ]
    findings.lost += len(lost) + len(unheard)
    findings.doubled += len(extra)
    findings.expect(
        holds=False,
        problem=f"records lost or changed {lost[:5]}, not deleted or half-written {extra[:5]}, "
        f"messages lost {unheard[:5]}",
    )


def _found_by_words(memory: Memory, parts: Parts, truth: State, findings: Findings) -> None:
    """Each row is found by its own word, at once; each text that is gone is not."""
    keywords, now = parts.store.keywords, utc_now()
    for scope, space, record_id, text in truth.rows():
        target = Target(scope=scope, space=space)
        hits = keywords.search(target, _word(text), where=None, now=now, limit=9)
        found = [hit.point_id for hit in hits]
        findings.lost += not found
        findings.expect(found == [point_id(scope, space, record_id)], f"{text[:40]!r} is found as {found}")
    gone = list(truth.gone())
    for scope, space, text in gone:
        hits = keywords.search(Target(scope=scope, space=space), _word(text), where=None, now=now, limit=9)
        findings.doubled += len(hits)
        findings.expect(not hits, f"{text[:40]!r} is gone and found by its word")
    for scope, _, text in gone[-_SAMPLE:]:
        hits_of_all = memory.recall(text, scope=scope, include_messages=True, top_k=50)
        findings.expect(text not in [hit.record.content for hit in hits_of_all], f"{text[:40]!r} is recalled")


def _vectors(parts: Parts, truth: State, findings: Findings) -> None:
    """Store and index hold one vector a row, made from that row's text."""
    rows = list(truth.rows())
    stored, waiting = parts.store.vectors.counts()
    findings.expect(
        (stored, waiting) == (len(rows), 0), f"{stored} vectors, {waiting} waiting, {len(rows)} rows"
    )
    kept = {
        record.point_id: vector
        for _, record, vector in parts.store.vectors.page(after=0, limit=len(rows) + 1)
    }
    index = parts.indexers.own.held()
    if index is None:
        # Before the first row there is none.
        findings.expect(not rows, "there is no index")
        return
    findings.expect(
        index.count() == len(rows), f"the index holds {index.count()} points, the store {len(rows)}"
    )
    held = index.get([point_id(scope, space, key) for scope, space, key, _ in rows])
    for scope, space, record_id, text in rows:
        point, own = point_id(scope, space, record_id), vector_of(text)
        for name, vectors in (("store", kept), ("index", held)):
            vector = vectors.get(point)
            right = vector is not None and np.allclose(vector, own, atol=_ALIKE)
            findings.expect(right, f"the {name} has a wrong vector, or none, for {text[:40]!r}")
        best = index.search(Target(scope=scope, space=space), own, where=None, limit=1)
        itself = bool(best) and best[0].point_id == point and abs(best[0].cosine - 1) < _ALIKE
        findings.expect(itself, f"{text[:40]!r} is not found by its own vector")


def _recalled(memory: Memory, truth: State, findings: Findings, chance: random.Random) -> None:
    """The newest rows and a sample are recalled by each leg alone, in full."""
    rows = list(truth.rows())
    for scope, space, record_id, text in rows[-_SAMPLE:] + chance.sample(rows, min(_SAMPLE, len(rows))):
        spoken = space == MESSAGES
        dense = memory.recall(text, scope=scope, ranking=DENSE, include_messages=spoken)
        alike = [
            h.record.id for h in dense if (h.signals.similarity or 0) > 1 - _ALIKE and h.record.space == space
        ]
        findings.expect(alike == [record_id], f"dense recall of {text[:40]!r} brings {alike}")
        findings.expect(not dense.missing, f"recall lacks {sorted(dense.missing)}")
        keyword = memory.recall(_word(text), scope=scope, ranking=KEYWORD, include_messages=spoken)
        found = [hit.record.id for hit in keyword if hit.signals.keyword is not None]
        findings.expect(found == [record_id], f"keyword recall of {text[:40]!r} brings {found}")
        if not spoken:
            got = memory.get(record_id, scope=scope)
            findings.expect(got is not None and got.content == text, f"get of {record_id!r} gives {got!r}")


def _files(path: Path, truth: State, findings: Findings) -> None:
    """SQLite finds its file whole, and no table holds a row that belongs to nothing."""
    rows = sum(1 for _ in truth.rows())
    checks: dict[str, object] = {
        "PRAGMA integrity_check": "ok",
        "SELECT count(*) FROM pragma_foreign_key_check": 0,
        "SELECT count(*) FROM records": rows,
        "SELECT count(DISTINCT point_id) FROM records": rows,
        "SELECT coalesce(sum(documents), 0) FROM partitions": rows,
        "SELECT (SELECT coalesce(sum(terms), 0) FROM partitions) - (SELECT coalesce(sum(terms), 0) FROM records)": 0,
        "SELECT (SELECT coalesce(sum(count), 0) FROM postings) - (SELECT coalesce(sum(terms), 0) FROM records)": 0,
        "SELECT count(*) FROM postings WHERE seq NOT IN (SELECT seq FROM records)": 0,
        "SELECT count(*) FROM vectors WHERE seq NOT IN (SELECT seq FROM records)": 0,
        "SELECT count(*) FROM outbox": 0,
    }
    with closing(sqlite3.connect(path)) as connection:
        for sql, expected in checks.items():
            (found,) = connection.execute(sql).fetchone()
            findings.expect(found == expected, f"{sql}: {found} instead of {expected}")


def _word(text: str) -> str:
    """The word that only this text has."""
    word = text.split(" ", 1)[0]
    assert word == word_of(text.split(" says", 1)[0].split("is what ", 1)[1])
    return word
