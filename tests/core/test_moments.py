"""Moments in every form and zone stay the same instants through a change of the model and a move (B65)."""

import io
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from memkit_core import Config, Memory, Ranking, Scope

ALICE = Scope.user("alice")
CPH = ZoneInfo("Europe/Copenhagen")

MOMENTS = {
    # The clocks were set forward at 02:00; half past two there was none, and Python takes it for winter time.
    "winter": (datetime(2024, 3, 31, 1, 30, tzinfo=CPH), datetime(2024, 3, 31, 0, 30, tzinfo=UTC)),
    "gap": (datetime(2024, 3, 31, 2, 30, tzinfo=CPH), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
    "summer": (datetime(2024, 3, 31, 3, 30, tzinfo=CPH), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),
    "zulu": ("2025-07-25T02:00:00Z", datetime(2025, 7, 25, 2, tzinfo=UTC)),
    "offset": ("2025-07-25T11:00:00+09:00", datetime(2025, 7, 25, 2, tzinfo=UTC)),
    "naive": (datetime(2025, 7, 25, 2), datetime(2025, 7, 25, 2, tzinfo=UTC)),  # noqa: DTZ001 - what is tested
    "day": (date(2025, 7, 25), datetime(2025, 7, 25, tzinfo=UTC)),
    "finer": ("2025-07-25T02:00:00.000999Z", datetime(2025, 7, 25, 2, tzinfo=UTC)),
    "seconds": (1_753_408_800, datetime(2025, 7, 25, 2, tzinfo=UTC)),
}
"""What is given, and the instant it is."""

FORMS = [
    "2025-07-25T02:00:00Z",
    "2025-07-25T02:00:00",
    "2025-07-24T19:00:00-07:00",
    datetime(2025, 7, 25, 4, tzinfo=CPH),
    1_753_408_800_000,
]
"""One border of a range, as everybody writes it."""


class Letters:
    """Vectors are letter counts."""

    model, size = "letters", 26

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [1.0 + text.count(chr(97 + i % 26)) for i in range(self.size)]


class Pairs(Letters):
    """Another model."""

    model, size = "pairs", 40


def check(memory):
    """Each moment is the instant it was, and every form of a border draws the same line, by each leg and in lists."""
    for name, (_, instant) in MOMENTS.items():
        assert memory.get(name, scope=ALICE).occurred_at == instant
        assert memory.get(name, scope=ALICE).occurred_at.tzinfo is UTC
    for border in FORMS:
        later = {"occurred_at": {"gte": border}}
        expected = {"zulu", "offset", "naive", "finer", "seconds"}
        for ranking in (Ranking(keyword=0.0), Ranking(dense=0.0), Ranking()):
            hits = memory.recall("event", scope=ALICE, filters=later, top_k=20, ranking=ranking)
            assert not hits.missing
            assert {hit.record.id for hit in hits} == expected
        listed = memory.list_records(scope=ALICE, filters=later)
        assert {record.id for record in listed} == expected
        earlier = memory.list_records(scope=ALICE, filters={"occurred_at": {"lt": border}})
        assert {record.id for record in earlier} == MOMENTS.keys() - expected


@pytest.mark.parametrize("place", [":memory:", "m.db"])
def test_moments_survive_another_model_and_a_move(tmp_path, place, run_script):
    """Before and after a change of the model, in another process and zone, and in a store it was exported to."""
    path = place if place == ":memory:" else tmp_path / place
    with Memory.open(path, embedder=Letters(), config=Config(disk_reserve=1)) as memory:
        for name, (given, _) in MOMENTS.items():
            memory.add(f"the event called {name}", scope=ALICE, id=name, type="event", occurred_at=given)
        memory.flush()
        check(memory)
        memory.upkeep.reembed(Pairs())
        check(memory)
        memory.undo("zulu", scope=ALICE)
        memory.restore("zulu", scope=ALICE)
        out = io.StringIO()
        memory.export_jsonl(out, everything=True)
        assert memory.upkeep.verify().whole
    with Memory.open(":memory:", embedder=Letters(), config=Config(disk_reserve=1)) as other:
        other.import_jsonl(io.StringIO(out.getvalue()))
        assert other.flush()
        check(other)
    if path != ":memory:":
        told = run_script(
            """
            import os, time
            os.environ["TZ"] = "America/Los_Angeles"
            time.tzset()
            from memkit_core import Memory, Scope
            with Memory.open("m.db", embedder="none") as memory:
                record = memory.get("naive", scope=Scope.user("alice"))
                later = {"occurred_at": {"gte": "2025-07-25T02:00:00"}}
                found = memory.list_records(scope=Scope.user("alice"), filters=later)
                print(record.occurred_at.isoformat(), len(found))
            """
        )
        assert told == "2025-07-25T02:00:00+00:00 5"
