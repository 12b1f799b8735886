"""Partitions kept in memory: the same answers as the store and its index, whatever happened before."""

import math
import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memkit_core import Config, Memory, Message, Role, Scope
from memkit_core.recall.copies import PartitionCopies

ALICE, TALK, OTHER = Scope.user("alice"), Scope.session("s1", user="alice"), Scope.session("s2", user="alice")
WORDS = ["tea", "milk", "Denver", "garden", "seven", "绿茶", "POL-358", "runs"]
QUESTIONS = ["tea with milk in the garden?", "绿茶 POL-358"]


def kept_nothing(memory):
    """Makes `memory` ask the store and the index each time; returns what it kept."""
    copies = memory._recall._copies
    memory._recall._copies = PartitionCopies(0)
    return copies


def numbers(result):
    """What each hit was given, by its id."""
    return {
        hit.record.id: (hit.score, hit.signals.similarity or -1, hit.signals.keyword or -1) for hit in result
    }


def texts(result):
    return {hit.record.id: hit.record.content for hit in result}


def compare(memory, **options):
    """Ask every question in both ways; they must agree, in numbers as exact as float32 allows."""
    for question in QUESTIONS:
        for scope in (TALK, [TALK, ALICE]):
            for messages in (False, True):
                asked = {"scope": scope, "include_messages": messages, "top_k": 50, **options}
                memory.recall(question, **asked)
                fast = memory.recall(question, **asked)
                copies = kept_nothing(memory)
                slow = memory.recall(question, **asked)
                memory._recall._copies = copies
                close = {one: pytest.approx(values, abs=2e-5) for one, values in numbers(slow).items()}
                assert numbers(fast) == close, (question, asked)
                assert texts(fast) == texts(slow)
                assert (fast.missing, fast.truncated) == (slow.missing, slow.truncated)


def sentence(rng):
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 5)))


def some(rng, ids):
    return rng.choice(ids) if ids else "nobody"


def memories(memory):
    return [record.id for record in memory.list_records(scope=ALICE, limit=100)]


def said(memory):
    return [message.id for message in memory.sessions.read(scope=TALK)]


def merge(memory, rng, _clock):
    record = memory.get(some(rng, memories(memory)), scope=ALICE)
    memory.add(record.content if record else "tea", scope=ALICE, importance=rng.random())


def update(memory, rng, clock):
    ids = memories(memory)
    next_year = clock.now.replace(year=clock.now.year + 1)
    change = rng.choice(
        [
            {"content": sentence(rng)},
            {"importance": rng.random()},
            {"pinned": True},
            {"expires_at": next_year},
        ]
    )
    if ids:
        memory.update(rng.choice(ids), scope=ALICE, **change)


def say(memory, rng, _clock):
    lines = [Message(role=Role.USER, text=sentence(rng)) for _ in range(3)]
    memory.sessions.append(lines, scope=rng.choice([TALK, OTHER]))


def say_again(memory, rng, _clock):
    line = Message(id=some(rng, said(memory)), role=Role.USER, text=sentence(rng))
    memory.sessions.append([line], scope=TALK)


def wait(_memory, _rng, clock):
    clock.now = clock.now.replace(year=clock.now.year + 1)


VERBS = {
    "add": lambda memory, rng, _: memory.add(sentence(rng), scope=rng.choice([ALICE, TALK])),
    "merge": merge,
    "update": update,
    "delete": lambda memory, rng, _: memory.delete(some(rng, memories(memory)), scope=ALICE),
    "say": say,
    "say again": say_again,
    "unsay": lambda memory, rng, _: memory.sessions.delete([some(rng, said(memory))], scope=TALK),
    "clear": lambda memory, _rng, _: memory.sessions.clear(scope=OTHER),
    "wait": wait,
}
STEPS = st.lists(st.tuples(st.sampled_from(sorted(VERBS)), st.integers(0, 10**6)), max_size=12)


@pytest.mark.parametrize("path", [":memory:", "memory.db"])
def test_copies_answer_like_the_store(tmp_path_factory, clock, path):
    """After any changes a copy gives the hits, scores, similarities and flags that store and index give."""

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(STEPS)
    def agree(steps):
        place = path if path == ":memory:" else tmp_path_factory.mktemp("copies") / path
        with Memory.open(place, clock=clock) as memory:
            rng = random.Random(1)
            memory.add_many([sentence(rng) for _ in range(6)], scope=ALICE)
            compare(memory)
            for what, seed in steps:
                VERBS[what](memory, random.Random(seed), clock)
                memory.recall(QUESTIONS[seed % 2], scope=ALICE, include_messages=True)
            compare(memory)

    agree()


@pytest.fixture
def asked(memory):
    """A memory that keeps a copy of what it was asked for; and the copies."""
    memory.add_many([f"{word} and {other}" for word in WORDS for other in WORDS], scope=ALICE)
    for _ in range(2):
        memory.recall("tea", scope=ALICE)
    return memory, memory._recall._copies


def held(copies):
    """How many partitions are kept."""
    return len(copies._copies)


class TestKeeping:
    """What is kept, and when."""

    def test_not_for_one_question(self, memory):
        """The first question reads a partition only if it is small: a process may ask only once."""
        memory.add_many([f"green tea {n}" for n in range(501)], scope=ALICE)
        memory.add("green tea", scope=TALK)
        memory.recall("tea", scope=TALK)
        assert held(memory._recall._copies) == 1
        memory.delete(scope=TALK)
        memory.recall("tea", scope=TALK)
        assert held(memory._recall._copies) == 0
        memory.recall("tea", scope=ALICE)
        assert held(memory._recall._copies) == 0
        memory.recall("tea", scope=ALICE)
        assert held(memory._recall._copies) == 1

    def test_two_memories_of_a_process_share_them(self, asked, clock):
        """Memories on one file keep one copy of a partition."""
        memory, copies = asked
        with Memory.open(memory.path, clock=clock) as other:
            assert other._recall._copies is copies

    def test_a_filter_asks_the_store(self, asked):
        """With a filter the store answers, and the answers agree."""
        memory, _ = asked
        hits = memory.recall("tea", scope=ALICE, filters={"importance": {"gt": 0.9}})
        assert list(hits) == []
        compare(memory, filters={"content": {"contains": "milk"}})

    def test_what_is_excluded_or_of_another_type(self, asked):
        """Types and statuses mean the same to a copy."""
        memory, _ = asked
        memory.add("a cup of tea", scope=ALICE, type="preference")
        compare(memory, types=["preference"])
        compare(memory, status=["archived", "active"])

    def test_another_process_commits(self, asked, run_script):
        """What another process wrote, changed or deleted is seen by the next recall."""
        memory, copies = asked
        victim = memory.recall("POL-358 POL-358", scope=ALICE)[0].record.id
        run_script(
            """
            import sys
            from memkit_core import Memory, Scope
            with Memory.open(sys.argv[1]) as memory:
                memory.delete(sys.argv[2], scope=Scope.user("alice"))
                memory.add("a zebra in Denver", scope=Scope.user("alice"))
            """,
            memory.path,
            victim,
        )
        memory.flush()
        found = memory.recall("zebra", scope=ALICE, top_k=1)
        assert [hit.record.content for hit in found] == ["a zebra in Denver"]
        assert found.missing == frozenset()
        assert victim not in {hit.record.id for hit in memory.recall("POL-358", scope=ALICE, top_k=64)}
        assert held(copies) == 1
        compare(memory)

    def test_bytes_are_bounded(self, tmp_path, clock):
        """The least recently used copies go first; a partition of more than half the bytes is not kept."""
        with Memory.open(tmp_path / "m.db", clock=clock, config=Config(recall_copy_bytes=60_000)) as memory:
            for user in ("a", "b", "c", "d"):
                memory.add_many([f"{user} {n}" for n in range(9)], scope=Scope.user(user))
            memory.add_many([f"many {n}" for n in range(30)], scope=Scope.user("many"))
            for user in ("a", "b", "c", "d", "many"):
                for _ in range(3):
                    assert memory.recall(user, scope=Scope.user(user))
            copies = memory._recall._copies
            assert [key[0] for key in copies._copies] == [Scope.user(user).digest for user in ("c", "d")]

    def test_many_words_of_long_texts(self, memory):
        """More postings than are kept make room, also in the midst of a question that needs some of them."""
        rng = random.Random(3)
        words = [f"word{n}" for n in range(120)]
        memory.add_many([" ".join(rng.sample(words, 100)) for _ in range(9)], scope=ALICE)
        for word in words:
            # Each time one word that is kept and one that is new.
            asked = f"word0 {word} tea"
            fast = memory.recall(asked, scope=ALICE, top_k=50)
            copies = kept_nothing(memory)
            slow = memory.recall(asked, scope=ALICE, top_k=50)
            memory._recall._copies = copies
            assert numbers(fast) == {
                one: pytest.approx(values, abs=2e-5) for one, values in numbers(slow).items()
            }

    def test_none_at_all(self, tmp_path, clock):
        """With 0 bytes nothing is kept."""
        with Memory.open(tmp_path / "m.db", clock=clock, config=Config(recall_copy_bytes=0)) as memory:
            memory.add("green tea", scope=ALICE)
            for _ in range(3):
                assert memory.recall("tea", scope=ALICE)
            assert held(memory._recall._copies) == 0

    def test_a_copy_that_failed_is_read_anew(self, asked, monkeypatch):
        """Whatever interrupts bringing a copy up to date, the next recall is right."""
        memory, copies = asked
        (copy,) = copies._copies.values()

        def broken(*_):
            raise MemoryError

        with monkeypatch.context() as patched:
            patched.setattr(type(copy), "_append", broken)
            memory.add("a zebra", scope=ALICE)
            with pytest.raises(MemoryError):
                memory.recall("zebra", scope=ALICE)
        assert memory.recall("zebra", scope=ALICE)[0].record.content == "a zebra"
        compare(memory)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_forked_child_keeps_its_own(self, asked):
        """A child reads its own copies; nothing of the parent's is used in it."""
        memory, copies = asked
        inherited = list(copies._copies.values())
        child = os.fork()
        if child == 0:
            code = 1
            try:
                hits = memory.recall("tea", scope=ALICE)
                code = 0 if hits and not any(one in inherited for one in copies._copies.values()) else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0

    def test_a_hit_without_a_vector(self, memory):
        """A text that holds nothing to embed has no similarity, and is found by its words."""
        memory.add("xqzt", scope=ALICE)
        memory.add("???", scope=ALICE)
        compare(memory)

    def test_scores_are_numbers(self, asked):
        """No score of a copy is NaN."""
        memory, _ = asked
        assert not any(math.isnan(hit.score) for hit in memory.recall("tea", scope=ALICE, top_k=64))
