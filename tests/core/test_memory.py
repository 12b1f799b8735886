"""What a user of `Memory` is promised: adding, reading, recalling, deleting, lifetime."""

import asyncio
import copy
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
import pytest

from memkit_core import (
    AsyncMemory,
    ClosedError,
    Config,
    ConfigError,
    FilterError,
    InvalidInputError,
    Memory,
    Message,
    ModelError,
    NewMemory,
    Ranking,
    RecordType,
    Role,
    Scope,
    ScopeError,
)

ALICE = Scope.user("alice")
BOB = Scope.user("bob")


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db") as opened:
        yield opened


def texts(hits):
    return [hit.record.content for hit in hits]


class TestTheExampleOfTheReadme:
    def test_a_fact_is_recalled_for_its_owner_and_read_by_id(self, memory):
        """What was added is recalled by meaning and read by id, in its scope only."""
        record = memory.add("I moved to Denver in May and I am vegetarian.", scope=ALICE, tags=["Profile"])
        memory.add("Ticket is about the login page.", scope=Scope.session("s1", user="alice"))

        hits = memory.recall("where does she live?", scope=ALICE, top_k=5)

        assert texts(hits) == ["I moved to Denver in May and I am vegetarian."]
        assert 0 < hits[0].score <= 1
        assert hits.missing == frozenset()
        assert memory.get(record.id, scope=ALICE) == record
        assert record.tags == ("profile",)

    def test_session_memories_do_not_surface_in_the_users_scope(self, memory):
        """A broad scope does not bring the memories of narrower scopes along."""
        session = Scope.session("s1", user="alice")
        memory.add("Ticket is about the login page.", scope=session)

        assert texts(memory.recall("login ticket", scope=ALICE, include_messages=True)) == []
        assert texts(memory.recall("login ticket", scope=[ALICE, session])) == [
            "Ticket is about the login page."
        ]

    def test_a_new_process_finds_what_an_ended_one_wrote(self, tmp_path):
        """What was added is found, by keyword and vector, after the writing process has ended."""
        script = """
            from memkit_core import Memory, Scope
            memory = Memory.open("memory.db")
            memory.add("The spare key is under the blue pot.", scope=Scope.user("alice"))
            import os; os._exit(0)  # no close: the process just ends
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, check=True)

        with Memory.open(tmp_path / "memory.db") as memory:
            hits = memory.recall("where is the spare key?", scope=ALICE)

        assert texts(hits) == ["The spare key is under the blue pot."]
        assert hits[0].signals.similarity is not None
        assert hits[0].signals.keyword is not None
        assert hits.missing == frozenset()


class TestAdd:
    def test_default_importance_follows_type_length_and_mark(self, memory):
        """Importance defaults to a prior by type, plus length up to 0.2, plus 0.3 when marked."""
        long = "x" * 100
        assert memory.add(long, scope=ALICE, type="preference").importance == 1.0
        assert memory.add(long, scope=ALICE).importance == pytest.approx(0.9)
        assert memory.add(long, scope=ALICE, type="event").importance == pytest.approx(0.7)
        assert memory.add("x" * 50, scope=ALICE, type="summary", important=True).importance == 1.0
        assert memory.add("y", scope=ALICE, importance=0.05, important=True).importance == 0.05

    def test_every_field_comes_back(self, memory):
        """What is given to add is read back equal, times as aware UTC."""
        record = memory.add(
            "She plays the cello.",
            scope=ALICE,
            id="a:b/c 'd' %_@ 🎻",
            type=RecordType.PREFERENCE,
            tags=["Art", "art", "Music"],
            metadata={"deep": {"er": [1, 2.5, None, True, "x"]}, "a.b": 1, 'q"': "'"},
            importance=1,
            pinned=True,
            occurred_at="2024-03-31T01:30:00+01:00",
            expires_at=4_000_000_000,
            valid_from=datetime(2024, 1, 1),  # noqa: DTZ001 - naive on purpose: it means UTC
            agent_id="writer",
            source="call",
            confidence=0.5,
            origin="assistant",
            source_message_ids=["m1", "m2"],
        )
        assert memory.get("a:b/c 'd' %_@ 🎻", scope=ALICE) == record
        assert record.tags == ("art", "music")
        assert record.metadata == {"deep": {"er": [1, 2.5, None, True, "x"]}, "a.b": 1, 'q"': "'"}
        assert record.occurred_at == datetime(2024, 3, 31, 0, 30, tzinfo=UTC)
        assert record.expires_at == datetime(2096, 10, 2, 7, 6, 40, tzinfo=UTC)
        assert record.valid_from == datetime(2024, 1, 1, tzinfo=UTC)
        assert (record.version, record.source_message_ids) == (1, ("m1", "m2"))

    def test_a_known_id_is_replaced(self, memory):
        """The same id in the same scope is one record: version counts up, created_at stays."""
        first = memory.add("Parks on level 3.", scope=ALICE, id="parking")
        second = memory.add("Parks on level 5.", scope=ALICE, id="parking")
        other = memory.add("Bikes.", scope=BOB, id="parking")

        assert (first.version, second.version, other.version) == (1, 2, 1)
        assert second.created_at == first.created_at
        assert texts(memory.recall("parks level", scope=ALICE)) == ["Parks on level 5."]
        assert memory.recall("parks level", scope=ALICE)[0].signals.similarity > 0.8

    def test_add_many_keeps_order_and_is_whole(self, memory):
        """add_many returns records in order; one bad item and nothing is written."""
        made = memory.add_many(["one", NewMemory(content="two", tags=["t"]), "three"], scope=ALICE)
        assert [r.content for r in made] == ["one", "two", "three"]

        with pytest.raises(InvalidInputError):
            memory.add_many(["four", "  ", "five"], scope=ALICE)
        assert len(memory.list_records(scope=ALICE)) == 3
        assert memory.add_many([], scope=ALICE) == []

    def test_background_add_is_readable_at_once_and_flush_waits(self, memory):
        """A background add is readable by id and keyword when it returns; flush embeds the rest."""
        record = memory.add("Quokkas smile.", scope=ALICE, background=True)
        assert memory.get(record.id, scope=ALICE) == record
        assert texts(memory.recall("quokkas", scope=ALICE)) == ["Quokkas smile."]
        assert memory.flush(timeout=60)
        assert memory.recall("quokkas", scope=ALICE)[0].signals.similarity is not None

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("content", ""),
            ("content", " \n\t"),
            ("content", None),
            ("content", b"bytes"),
            ("content", 7),
            ("id", ""),
            ("id", 7),
            ("id", "nul\0"),
            ("id", "half \ud83d"),
            ("id", "x" * 4097),
            ("type", "gossip"),
            ("origin", "nobody"),
            ("importance", 1.01),
            ("importance", -0.1),
            ("importance", float("nan")),
            ("importance", "high"),
            ("importance", True),
            ("confidence", 2),
            ("pinned", "yes"),
            ("tags", "profile"),
            ("tags", [""]),
            ("tags", [1]),
            ("occurred_at", "soon"),
            ("occurred_at", float("inf")),
            ("occurred_at", 10**20),
            ("expires_at", True),
            ("metadata", ["no", "dict"]),
            ("metadata", {1: "int key"}),
            ("metadata", {"k": {1, 2}}),
            ("metadata", {"k": datetime(2024, 1, 1, tzinfo=UTC)}),
            ("metadata", {"k": datetime(2024, 1, 1, tzinfo=UTC).date()}),
            ("metadata", {"k": uuid4()}),
            ("metadata", {"k": b"bytes"}),
            ("metadata", {"k": Path("x")}),
            ("metadata", {"k": float("nan")}),
            ("metadata", {"k": float("inf")}),
            ("metadata", {"k": 2**70}),
            ("metadata", {"k": Enum("Color", "RED").RED}),
            ("metadata", {"k": NewMemory(content="dataclass")}),
            ("metadata", {"k": object()}),
            ("metadata", {"k": {"deep": [{"er": object()}]}}),
            ("metadata", {"k": "nul\0"}),
            ("metadata", {"k": "half \ud83d"}),
            ("source_message_ids", [""]),
        ],
    )
    def test_bad_input_is_a_typed_error_and_changes_nothing(self, memory, field, value):
        """Bad input raises an error that names the field, and nothing is half-written."""
        arguments = {"content": "fine", field: value}
        with pytest.raises(InvalidInputError, match=field.split("_")[0]) as caught:
            memory.add(**arguments, scope=ALICE)

        assert str(caught.value).isprintable()
        assert len(memory.list_records(scope=ALICE)) == 0
        assert memory.capabilities.outbox.length == 0

    @pytest.mark.parametrize("scope", [None, "alice", 7, {"user": "alice"}, Scope])
    def test_a_missing_or_wrong_scope_is_refused_by_every_verb(self, memory, scope):
        """Every verb refuses to run without a Scope."""
        calls = [
            lambda: memory.add("x", scope=scope),
            lambda: memory.add_many(["x"], scope=scope),
            lambda: memory.recall("x", scope=scope),
            lambda: memory.recall("x", scope=[ALICE, scope]),
            lambda: memory.get("x", scope=scope),
            lambda: memory.list_records(scope=scope),
            lambda: memory.delete("x", scope=scope),
            lambda: memory.delete(scope=scope),
            lambda: memory.sessions.append([], scope=scope),
            lambda: memory.sessions.replace([], scope=scope),
            lambda: memory.sessions.read(scope=scope),
            lambda: memory.sessions.window(scope=scope),
            lambda: memory.sessions.clear(scope=scope),
            lambda: memory.sessions.list(scope=scope),
        ]
        for call in calls:
            with pytest.raises(ScopeError):
                call()
        with pytest.raises(ScopeError):
            memory.recall("x", scope=[])

    def test_unstorable_characters_are_replaced_in_content_only(self, memory):
        """NUL and lone surrogates in content become U+FFFD; every other character stays."""
        text = "half \ud83d end, pair \ud83d\ude00, naïve café, 丹佛, 👩‍👩‍👧, עברית, nul\0, a\u2028b\r\n"
        record = memory.add(text, scope=ALICE)
        expected = "half \ufffd end, pair 😀, naïve café, 丹佛, 👩‍👩‍👧, עברית, nul\ufffd, a\u2028b\r\n"
        assert record.content == expected
        assert memory.get(record.id, scope=ALICE).content == expected
        assert texts(memory.recall("丹佛", scope=ALICE)) == [expected]

    def test_a_megabyte_of_text_is_one_record_and_more_than_the_limit_an_error(self, memory):
        """Long content is stored whole up to Config.max_content_chars and refused beyond."""
        long = "word " * 200_000 + "needle"
        record = memory.add(long, scope=ALICE)
        assert memory.get(record.id, scope=ALICE).content == long
        assert memory.recall("needle", scope=ALICE)[0].record.id == record.id
        with pytest.raises(InvalidInputError, match="at most"):
            memory.add("x" * (memory.config.max_content_chars + 1), scope=ALICE)

    def test_the_callers_objects_are_neither_changed_nor_kept(self, memory):
        """Metadata is copied in and out: later changes of the caller's dict change nothing."""
        metadata = {"list": [1], "tuple": (1, 2)}
        record = memory.add("x", scope=ALICE, metadata=metadata)
        metadata["list"].append(2)
        record.metadata["list"].append(3)
        assert memory.get(record.id, scope=ALICE).metadata == {"list": [1], "tuple": [1, 2]}
        assert metadata == {"list": [1, 2], "tuple": (1, 2)}


class TestRecall:
    @pytest.mark.parametrize("top_k", [0, -1, 10**6, 1.5, "5", True, None])
    def test_top_k_outside_its_range_is_an_error(self, memory, top_k):
        """top_k is a whole number from 1 to Config.max_top_k; all else raises and names it."""
        with pytest.raises(InvalidInputError, match="top_k"):
            memory.recall("x", scope=ALICE, top_k=top_k)

    def test_a_blank_query_recalls_nothing_and_no_text_is_required(self, memory):
        """A blank query gives an empty result; a query that is no text raises."""
        memory.add("something", scope=ALICE)
        assert list(memory.recall("", scope=ALICE)) == []
        assert list(memory.recall("  \n", scope=ALICE)) == []
        with pytest.raises(InvalidInputError, match="query"):
            memory.recall(None, scope=ALICE)

    @pytest.mark.parametrize(
        "literal",
        [
            "POL-358",
            "don't",
            "GB/s",
            "a:b",
            "C++",
            "foo AND bar",
            '"quoted"',
            "NEAR(",
            "ZX-9941",
            "丹佛",
            "東京",
            "서울",
        ],
    )
    def test_literals_are_found_by_keyword_alone(self, memory, literal):
        """Every ordinary literal is found by the keyword leg; no character of a query is special."""
        filler = [f"Filler fact number {i} on gardens and weather." for i in range(30)]
        memory.add_many([*filler, f"The note says {literal} on the label."], scope=ALICE)
        keyword_only = Ranking(dense=0.0)
        hits = memory.recall(literal, scope=ALICE, top_k=1, ranking=keyword_only)
        assert literal in hits[0].record.content

    @pytest.mark.parametrize(
        "query", ["(", "*", '"', "NEAR(", "a AND", "' OR 1=1 --", "the of and", "x " * 5000, "\ud83d", "\0"]
    )
    def test_no_query_raises(self, memory, query):
        """Any text is a query: none is a syntax error."""
        memory.add("a plain fact", scope=ALICE)
        memory.recall(query, scope=ALICE)

    def test_both_legs_bring_their_own(self, memory):
        """An exact code and a paraphrase without a shared word are both in the top three."""
        memory.add_many(
            [f"The gardener planted tree number {i} near the wall." for i in range(200)], scope=ALICE
        )
        code = memory.add("Reference ZX-9941 was filed.", scope=ALICE)
        meaning = memory.add("Her kitten is very playful.", scope=ALICE)

        assert memory.recall("ZX-9941", scope=ALICE, top_k=3)[0].record.id == code.id
        hits = memory.recall("young cat that likes to play", scope=ALICE, top_k=3)
        assert meaning.id in [hit.record.id for hit in hits]
        assert len({hit.record.id for hit in hits}) == len(hits) == 3
        assert all(0 <= hit.score <= 1 for hit in hits)

    def test_weight_zero_removes_a_leg(self, memory):
        """With weight 0 a leg brings no candidate and no score."""
        memory.add_many(["alpha beta", "gamma delta"], scope=ALICE)
        keyword = memory.recall("alpha", scope=ALICE, ranking=Ranking(dense=0.0))
        dense = memory.recall("alpha", scope=ALICE, ranking=Ranking(keyword=0.0))
        assert texts(keyword) == ["alpha beta"]
        assert keyword[0].signals.similarity is None
        assert all(hit.signals.keyword is None for hit in dense)

    def test_a_model_is_heard_as_far_as_it_knows_the_words(self, tmp_path):
        """Vectors of a text that the model has no words for hardly move what shares words with the query."""

        class Looks:
            """Finds texts of one length alike, and says what it knows."""

            model, revision, known = "looks", "1", 1.0

            def embed_documents(self, texts):
                return np.array([self.embed_query(text) for text in texts])

            def embed_query(self, text):
                angle = min(len(text), 60) / 60
                return np.array([np.cos(angle), np.sin(angle)], np.float32)

            def knows(self, text):
                return self.known

        model = Looks()
        with Memory.open(
            tmp_path / "m.db", embedder=model, config=Config(ranking=Ranking(dense=2.0))
        ) as memory:
            memory.add("tea", scope=ALICE, id="words", importance=0.5)
            memory.add("six of one, half a dozen", scope=ALICE, id="length", importance=0.5)
            query = "do we have any tea left?"
            assert memory.recall(query, scope=ALICE)[0].record.id == "length"
            model.known = 0.0
            assert memory.recall(query, scope=ALICE)[0].record.id == "words"

    @pytest.mark.parametrize(
        "answer", [ModelError("down", model="deaf"), ValueError("odd"), float("nan"), -1, 2]
    )
    def test_a_model_that_cannot_say_what_it_knows_is_left_out(self, tmp_path, answer):
        """It costs the dense leg, never the recall."""

        class Deaf:
            model, revision = "deaf", "1"

            def embed_documents(self, texts):
                return np.ones((len(texts), 2), np.float32)

            def embed_query(self, _text):
                return np.ones(2, np.float32)

            def knows(self, _text):
                if isinstance(answer, Exception):
                    raise answer
                return answer

        with Memory.open(tmp_path / "m.db", embedder=Deaf()) as memory:
            memory.add("green tea", scope=ALICE)
            result = memory.recall("tea", scope=ALICE)
            assert (texts(result), result.missing) == (["green tea"], {"dense"})

    def test_asking_again_does_not_push_out_the_answer(self, memory):
        """However often a question was asked before, what was told is found with few hits."""
        memory.add("Tom's parrot is called Kiki.", scope=ALICE, id="parrot")
        told = Message(role=Role.USER, text="I have a parrot called Kiki and I live in Porto.")
        memory.sessions.append([told], scope=Scope.session("told", user="alice"))
        for n in range(12):
            asked = [
                Message(role=Role.USER, text="What is my parrot called?"),
                Message(role=Role.ASSISTANT, text="I do not know."),
            ]
            memory.sessions.append(asked, scope=Scope.session(f"asked {n}", user="alice"))
        for top_k in (3, 5, 10):
            found = texts(
                memory.recall("What is my parrot called?", scope=ALICE, include_messages=True, top_k=top_k)
            )
            assert "Tom's parrot is called Kiki." in found
            assert told.text in found
            assert len(found) == len(set(found))

    def test_the_end_of_a_long_question_counts(self, memory):
        """A whole conversation can be the query; its last words are looked up like its first."""
        memory.add("The spare key is under the geranium.", scope=ALICE, id="key")
        memory.add("The tent is green.", scope=ALICE, id="tent")
        talk = " ".join(f"word{n}" for n in range(900))
        (hit,) = memory.recall(f"{talk} geranium", scope=ALICE, ranking=Ranking(dense=0.0))
        assert hit.record.id == "key"

    def test_scopes_are_compared_whole(self, memory):
        """Look-alike scopes never see each other's records, in any read or delete."""
        scopes = [
            Scope.user("u1"), Scope.user("u10"), Scope.user("u1/x"), Scope.user("u1."), Scope.user("U1"),
            Scope.user("u1", org="o"), Scope.user("u1", workspace="o"), Scope.session("u1", user="u1"),
            Scope.session("c", user="a:b"), Scope.session("b:c", user="a"), Scope.object("u1"), Scope.org("u1"),
            Scope.user("e\u0301"), Scope.user("\u00e9"), Scope.user(" u1"), Scope.user("7"),
        ]  # fmt: skip
        for i, scope in enumerate(scopes):
            memory.add(f"the secret word is w{i}", scope=scope, id="same")
        for i, scope in enumerate(scopes):
            assert texts(memory.recall("secret word", scope=scope)) == [f"the secret word is w{i}"]
            assert [r.content for r in memory.list_records(scope=scope)] == [f"the secret word is w{i}"]
            assert memory.get("same", scope=scope).content == f"the secret word is w{i}"
        memory.delete("same", scope=scopes[0])
        assert [len(memory.list_records(scope=s)) for s in scopes] == [0] + [1] * (len(scopes) - 1)

    def test_several_scopes_are_read_at_once_with_repeats_once(self, memory):
        """Named scopes are read together; the same text in two of them is one hit."""
        team = Scope.workspace("team")
        memory.add("Standup is at nine.", scope=team)
        memory.add("standup is at nine", scope=ALICE)
        memory.add("Standup notes go to the wiki.", scope=BOB)
        hits = memory.recall("standup", scope=[team, ALICE])
        assert len(hits) == 1
        assert memory.recall("standup", scope=[team, ALICE, BOB])[1].scope in (team, ALICE, BOB)

    def test_filters_and_types_are_applied_before_the_cut(self, memory):
        """A filter narrows before top-k: the one match is found behind a hundred better ones."""
        memory.add_many(
            [NewMemory(content=f"blue car {i}", metadata={"n": i}) for i in range(100)], scope=ALICE
        )
        memory.add("blue blue car", scope=ALICE, metadata={"n": "x"}, type="event", tags=["odd"])
        for narrowing in (
            {"filters": {"metadata.n": "x"}},
            {"filters": {"tags": {"contains": "odd"}}},
            {"types": ["event"]},
            {"types": "event"},
        ):
            assert texts(memory.recall("blue car", scope=ALICE, top_k=1, **narrowing)) == ["blue blue car"]
        with pytest.raises(FilterError, match="unknown filter operator"):
            memory.recall("blue", scope=ALICE, filters={"metadata.n": {"like": "x"}})
        with pytest.raises(FilterError, match="unknown filter key"):
            memory.recall("blue", scope=ALICE, filters={"user_id": "bob"})

    def test_expired_records_are_invisible_from_the_instant_they_expire(self, tmp_path):
        """An expired record is on no read path, whether or not anything swept it; pinned stays."""
        now = datetime(2030, 1, 1, tzinfo=UTC)
        with Memory.open(tmp_path / "m.db", clock=lambda: now) as memory:
            record = memory.add("short lived fact", scope=ALICE, expires_at=now + timedelta(seconds=5))
            pinned = memory.add(
                "pinned fact", scope=ALICE, expires_at=now + timedelta(seconds=5), pinned=True
            )
            assert len(memory.recall("fact", scope=ALICE)) == 2
            now += timedelta(seconds=5)
            assert memory.get(record.id, scope=ALICE) is None
            assert [r.id for r in memory.list_records(scope=ALICE)] == [pinned.id]
            assert [h.record.id for h in memory.recall("fact", scope=ALICE)] == [pinned.id]

    def test_an_identical_text_has_similarity_one(self, memory):
        """signals.similarity is (1 + cosine) / 2: identical text gives 1."""
        memory.add("the very same words", scope=ALICE)
        assert memory.recall("the very same words", scope=ALICE)[0].signals.similarity == pytest.approx(
            1, abs=1e-5
        )


class TestDelete:
    def test_delete_by_id_is_idempotent_and_scoped(self, memory):
        """Deleting removes one record from every read; again, or in another scope, is nothing."""
        record = memory.add("to be forgotten", scope=ALICE)
        assert memory.delete(record.id, scope=BOB).nothing
        receipt = memory.delete(record.id, scope=ALICE)
        assert (receipt.records, receipt.vectors) == (1, 1)
        assert memory.delete(record.id, scope=ALICE).nothing
        assert memory.get(record.id, scope=ALICE) is None
        assert list(memory.recall("forgotten", scope=ALICE)) == []

    def test_delete_scope_takes_all_of_it_and_nothing_else(self, memory):
        """Deleting a user takes records, sessions, messages and vectors; other scopes keep theirs."""
        session = Scope.session("s", user="alice")
        memory.add_many([f"fact {i}" for i in range(350)], scope=ALICE)
        memory.add("session note", scope=session)
        memory.sessions.append([Message(role=Role.USER, text=f"turn {i}") for i in range(120)], scope=session)
        memory.add_many(["b1", "b2", "b3"], scope=BOB)
        memory.flush()

        receipt = memory.delete(scope=ALICE)

        assert (receipt.records, receipt.turns, receipt.messages, receipt.sessions) == (351, 120, 120, 1)
        assert receipt.vectors == 471
        assert len(memory.list_records(scope=ALICE)) == 0
        assert memory.sessions.list(scope=ALICE) == []
        assert memory.sessions.read(scope=session) == []
        assert list(memory.recall("fact turn note", scope=[session, ALICE], include_messages=True)) == []
        assert len(memory.list_records(scope=BOB)) == 3
        assert memory.delete(scope=ALICE).nothing

    def test_delete_without_a_scope_is_refused(self, memory):
        """No scope, no id or an empty id never means "all"; that takes everything=True."""
        memory.add("kept", scope=ALICE)
        with pytest.raises(ScopeError):
            memory.delete()
        for nothing in (None, ""):
            with pytest.raises(InvalidInputError):
                memory.delete(nothing, scope=ALICE)
        with pytest.raises(ScopeError):
            memory.delete("x")
        with pytest.raises(InvalidInputError):
            memory.delete(scope=ALICE, everything=True)
        assert len(memory.list_records(scope=ALICE)) == 1
        assert memory.delete(everything=True).records == 1
        assert len(memory.list_records(scope=ALICE)) == 0


class FlakyEmbedder:
    """Fails at texts that hold "bad"; vectors are letter counts, so a wrong one shows."""

    model = "flaky-26"

    def __init__(self):
        self.calls = 0

    def embed_documents(self, texts):
        self.calls += 1
        if any("bad" in text for text in texts):
            raise RuntimeError("rate limit")
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [float(text.lower().count(chr(97 + i))) for i in range(26)]


class TestDegradation:
    def test_a_bad_text_does_not_block_the_others(self, tmp_path):
        """Of a batch with one text that cannot be embedded, the others get their vectors."""
        with Memory.open(tmp_path / "m.db", embedder=FlakyEmbedder()) as memory:
            memory.add_many(["apple", "bad", "plum"], scope=ALICE)
            assert memory.capabilities.outbox.failed == 0
            dense = memory.recall("apple", scope=ALICE, ranking=Ranking(keyword=0.0))
            assert set(texts(dense)) == {"apple", "plum"}
            assert "dense" in dense.missing

    def test_another_model_is_refused_at_open(self, tmp_path):
        """Opening a store with another embedder is an error that names both models."""
        with Memory.open(tmp_path / "m.db") as memory:
            memory.add("kept", scope=ALICE)
        with pytest.raises(ConfigError, match=r"wordllama.*flaky-26"):
            Memory.open(tmp_path / "m.db", embedder=FlakyEmbedder())
        with Memory.open(tmp_path / "m.db") as memory:
            assert texts(memory.recall("kept", scope=ALICE)) == ["kept"]

    def test_an_embedder_needs_methods_and_a_name(self, tmp_path):
        """An object memkit cannot embed with, or without a model name, is refused."""

        class Nameless:
            def embed_documents(self, texts):
                return [[1.0] for _ in texts]

            def embed_query(self, text):
                return [float(len(text))]

        for wrong in (object(), "openai:nothing", 7):
            with pytest.raises(ConfigError):
                Memory.open(tmp_path / "m.db", embedder=wrong)
        with pytest.raises(ConfigError, match="embedding_model"):
            Memory.open(tmp_path / "m.db", embedder=Nameless())
        Memory.open(tmp_path / "m.db", embedder=Nameless(), embedding_model="mine").close()

    def test_text_without_tokens_is_stored_but_never_indexed(self, tmp_path):
        """A zero vector means nothing to embed: the record is kept, and embedded no second time."""
        embedder = FlakyEmbedder()
        with Memory.open(tmp_path / "m.db", embedder=embedder) as memory:
            memory.add("123 456", scope=ALICE)
            calls = embedder.calls
            assert memory.flush()
            assert embedder.calls == calls
            assert texts(memory.recall("456", scope=ALICE)) == ["123 456"]


class TestLifetime:
    def test_a_second_process_works_while_the_first_holds_the_index(self, tmp_path):
        """Another process adds and recalls without the index and says so; the holder then sees it."""
        script = """
            from memkit_core import Memory, Scope
            with Memory.open("m.db") as memory:
                memory.add("written by the second", scope=Scope.user("alice"))
                hits = memory.recall("second first", scope=Scope.user("alice"))
                print(sorted(hit.record.content for hit in hits), sorted(hits.missing))
        """
        with Memory.open(tmp_path / "m.db") as memory:
            memory.add("written by the first", scope=ALICE)
            ran = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(script)],
                cwd=tmp_path, check=True, capture_output=True, text=True,
            )  # fmt: skip
            assert ran.stdout.strip() == "['written by the first', 'written by the second'] ['index']"
            hits = memory.recall("written by", scope=ALICE)
            assert len(hits) == 2
            assert all(hit.signals.similarity is not None for hit in hits)
            assert hits.missing == frozenset()
            assert memory.flush()

    def test_close_is_idempotent_and_later_calls_say_so(self, tmp_path):
        """close can be called twice; after it every verb raises ClosedError; the file alone is whole."""
        memory = Memory.open(tmp_path / "m.db")
        memory.add("kept", scope=ALICE)
        memory.close()
        memory.close()
        with pytest.raises(ClosedError):
            memory.add("late", scope=ALICE)
        with pytest.raises(ClosedError):
            memory.recall("late", scope=ALICE)
        assert not (tmp_path / "m.db-wal").exists()
        moved = tmp_path / "elsewhere.db"
        (tmp_path / "m.db").rename(moved)
        with Memory.open(moved) as again:
            hits = again.recall("kept", scope=ALICE)
            assert texts(hits) == ["kept"]
            assert hits.missing == frozenset()

    def test_the_first_question_of_all_lacks_nothing(self, tmp_path):
        """In a new file an index that cannot be there yet is not missing; in none there is nothing to find."""
        chat = Scope.session("chat", user="alice")
        with Memory.open(tmp_path / "m.db") as memory:
            assert memory.recall("tea", scope=ALICE, include_messages=True).missing == frozenset()
            memory.sessions.append([Message(role=Role.USER, text="Tea is nice.")], scope=chat)
            hits = memory.recall("tea", scope=[chat, ALICE], include_messages=True)
            assert hits.missing == frozenset()
            assert hits[0].signals.similarity is not None

    def test_a_dropped_memory_frees_the_index(self, tmp_path):
        """A memory that is lost without close lets the next one have the index."""
        memory = Memory.open(tmp_path / "m.db")
        memory.add("kept", scope=ALICE)
        del memory
        with Memory.open(tmp_path / "m.db") as again:
            assert again.capabilities.index
            assert texts(again.recall("kept", scope=ALICE)) == ["kept"]

    def test_copies_of_parts_are_the_same(self, tmp_path):
        """A copy of what hangs on a memory is that itself; pickled it says to pickle the memory, which an async one does."""
        memory = AsyncMemory(Memory.open(tmp_path / "m.db"))
        plain = memory._memory
        names = ("sessions", "summaries", "working", "runs", "upkeep", "transfer", "formation")
        held = [
            *(getattr(plain, name) for name in names),
            *(getattr(memory, name) for name in names),
            plain.sessions.queue,
            plain.sessions.queue.turn(scope=Scope.session("s", user=ALICE)),
            memory.sessions.queue,
            plain.documents(scope=ALICE),
        ]
        for part in (*held, memory):
            assert copy.copy(part) is part
            assert copy.deepcopy([part]) == [part]
        for part in held:
            with pytest.raises(ConfigError, match="pickle the memory"):
                pickle.dumps(part)
        memory = pickle.loads(pickle.dumps(memory))
        assert memory._memory.path == plain.path
        for one in (AsyncMemory(plain), memory):
            asyncio.run(one.close())

    def test_copies_share_and_pickles_reopen(self, tmp_path):
        """copy and deepcopy give the same memory; a pickle opens the same file."""
        with Memory.open(tmp_path / "m.db") as memory:
            memory.add("kept", scope=ALICE)
            assert copy.copy(memory) is memory
            assert copy.deepcopy({"memory": memory})["memory"] is memory
            pickled = pickle.dumps(memory)
        with pickle.loads(pickled) as again:
            assert texts(again.recall("kept", scope=ALICE)) == ["kept"]
        with Memory.open(":memory:") as unsaved, pytest.raises(ConfigError, match="pickle"):
            pickle.dumps(unsaved)

    def test_memory_only_works_and_is_refused_in_production(self):
        """ ":memory:" does everything without a file, and is an error in production."""
        with Memory.open(":memory:") as memory:
            memory.add("The cat is called Momo.", scope=ALICE)
            hits = memory.recall("name of the cat", scope=ALICE)
            assert texts(hits) == ["The cat is called Momo."]
            assert hits.missing == frozenset()
        with pytest.raises(ConfigError, match="production"):
            Memory.open(":memory:", config=Config(environment="production"))

    @pytest.mark.parametrize("path", ["", None, 7, "no/such/folder/m.db", "."])
    def test_a_path_that_cannot_be_a_file_is_a_config_error(self, tmp_path, monkeypatch, path):
        """A missing folder, a folder, or no path at all is named in a typed error."""
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigError):
            Memory.open(path)

    def test_eight_threads_write_and_read_at_once(self, memory):
        """Threads share one memory: every record is there once, and no call fails."""
        errors = []

        def work(n):
            try:
                for i in range(25):
                    memory.add(f"thread {n} fact {i}", scope=ALICE, id=f"{n}-{i}")
                    memory.recall(f"fact {i}", scope=ALICE, top_k=3)
            except Exception as error:  # noqa: BLE001 - any failure of any thread fails the test
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(memory.list_records(scope=ALICE, limit=1000)) == 200
        assert memory.flush()
        for n in range(8):
            assert memory.recall(f"thread {n} fact 24", scope=ALICE, top_k=1)[0].signals.similarity > 0.9


@pytest.mark.parametrize(
    "clock",
    [None, 5, datetime.now, lambda: 5.0, lambda: None],
    ids=["None", "number", "naive", "seconds", "nothing"],
)
def test_a_clock_that_tells_no_moment(tmp_path, clock):
    """A clock must return an aware datetime; a local one without a zone, a number and nothing are refused at once."""
    with pytest.raises(ConfigError, match="clock must"):
        Memory.open(tmp_path / "m.db", clock=clock)
    assert list(tmp_path.iterdir()) == []


def test_a_clock_of_another_zone(tmp_path):
    """Whatever the zone and precision of a clock, what comes back is what is stored: UTC in milliseconds."""
    tokyo = datetime(2026, 1, 1, 9, 0, 0, 123456, tzinfo=timezone(timedelta(hours=9)))

    def clock():
        return tokyo

    with (
        Memory.open(tmp_path / "m.db", clock=clock) as memory,
        Memory.open(tmp_path / "m.db", clock=clock) as other,
    ):
        added = memory.add("kept", scope=ALICE)
        assert added.created_at == datetime(2026, 1, 1, 0, 0, 0, 123000, tzinfo=UTC)
        assert added.created_at.tzinfo is UTC
        assert other.get(added.id, scope=ALICE) == added
        assert other.capabilities.index


class Name(str, Enum):  # noqa: UP042 - a StrEnum has its text as str(), this has not
    """Texts that have names, which their str() shows."""

    ID = "r1"
    WHO = "eve"
    WORDS = "Eve has an owl."


def test_a_str_enum_is_its_text(memory):
    """A member of a str enum is stored as its text wherever a text goes, not under its name."""
    owner, session = Scope.user(Name.WHO), Scope.session(Name.ID, user=Name.WHO)
    assert (owner, type(owner.id)) == (Scope.user("eve"), str)
    record = memory.add(Name.WORDS, scope=owner, id=Name.ID, key=Name.ID, tags=[Name.WHO])
    texts = (record.id, record.content, record.key, *record.tags)
    assert ([type(text) for text in texts], texts) == ([str] * 4, ("r1", "Eve has an owl.", "r1", "eve"))
    assert memory.get("r1", scope=Scope.user("eve")) == record
    memory.sessions.append([Message(role=Role.USER, text=Name.WORDS, id=Name.ID)], scope=session)
    [message] = memory.sessions.read(scope=Scope.session("r1", user="eve"))
    assert (message.id, message.text, type(message.text)) == ("r1", "Eve has an owl.", str)
    memory.runs.save(Name.ID, {}, scope=owner)
    assert memory.runs.load("r1", scope=owner) is not None


def test_time_means_the_same_in_every_zone(tmp_path):
    """Equal instants are equal, naive means UTC, and a process in another zone reads and filters the same."""
    script = """
        from datetime import datetime
        from memkit_core import Memory, Scope
        alice = Scope.user("alice")
        forms = ["2025-07-25T02:00Z", "2025-07-25T11:00:00+09:00", "2025-07-25T02:00:00", 1753408800,
                 1753408800000, datetime(2025, 7, 25, 2), "2025-07-24T19:00:00.000999-07:00"]
        with Memory.open("m.db") as memory:
            for form in forms:
                memory.add(f"said at {form!r}", scope=alice, occurred_at=form)
            memory.add("a date", scope=alice, occurred_at="2025-07-25")
            moments = {r.occurred_at.isoformat() for r in memory.list_records(scope=alice)}
            def count(op, value):
                return len(memory.recall("said at", scope=alice, filters={"occurred_at": {op: value}}))
            print(sorted(moments), [count("eq", form) for form in forms], count("gt", "2025-07-25"))
    """
    outputs = set()
    for n, zone in enumerate(["UTC", "America/Los_Angeles", "Europe/Copenhagen"]):
        folder = tmp_path / str(n)
        folder.mkdir()
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            cwd=folder, check=True, capture_output=True, text=True, env={**os.environ, "TZ": zone},
        )  # fmt: skip
        outputs.add(ran.stdout.strip())
    assert outputs == {"['2025-07-25T00:00:00+00:00', '2025-07-25T02:00:00+00:00'] [7, 7, 7, 7, 7, 7, 7] 7"}


def test_importing_the_core_needs_numpy_only_and_sets_up_nothing():
    """`import memkit_core` loads no third party but NumPy and touches no logging."""
    script = """
        import sys, logging
        import numpy
        before = set(sys.modules)
        import memkit_core
        after = {name.split(".")[0] for name in set(sys.modules) - before}
        allowed = set(sys.stdlib_module_names) | {"memkit_core", "numpy"}
        print(sorted(after - allowed), logging.getLogger().handlers, logging.getLogger("memkit").handlers)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "[] [] []"


def test_point_ids_are_stable():
    """A point id depends on scope, space and id alone, and never changes between releases."""
    from memkit_core.models import point_id

    assert point_id(ALICE, "memories", "r1") == UUID("815bb0d1-70e9-5b23-b90e-dd301bcb72ce")


class TestTurns:
    def test_turns_are_found_by_the_user_and_by_their_session(self, memory):
        """A user's turn search covers all of the user's sessions, a session's only its own."""
        first, second = Scope.session("s1", user="alice"), Scope.session("s2", user="alice")
        other = Scope.session("s1", user="bob")
        for scope, text in (
            (first, "The tent is green."),
            (second, "The tent leaks."),
            (other, "My tent is red."),
        ):
            memory.sessions.append([Message(role=Role.USER, text=text, speaker="Al")], scope=scope)

        def found(*scopes):
            return sorted(texts(memory.recall("tent", scope=scopes, include_messages=True)))

        assert found(ALICE) == ["The tent is green.", "The tent leaks."]
        assert found(first) == ["The tent is green."]
        assert found(ALICE, first) == ["The tent is green.", "The tent leaks."]
        assert found(first, second) == ["The tent is green.", "The tent leaks."]
        assert found(other) == ["My tent is red."]
        assert found(Scope.workspace("alice"), Scope.org("alice")) == []
        assert texts(memory.recall("tent", scope=ALICE)) == []

    def test_a_turn_carries_speaker_session_position_and_time(self, memory):
        """A recalled turn says who said it, where and when; the caller's metadata cannot change that."""
        said = datetime(2024, 5, 1, 12, tzinfo=UTC)
        session = Scope.session("s1", user="alice")
        forged = {"session_id": "other", "speaker": "Eve", "role": "system", "mood": "calm"}
        memory.sessions.append([Message(role=Role.SYSTEM, text="Be kind.")], scope=session)
        [stored] = memory.sessions.append(
            [
                Message(
                    role=Role.USER, text="The tent is green.", speaker="Al", created_at=said, metadata=forged
                )
            ],
            scope=session,
        )
        [hit] = memory.recall("tent", scope=ALICE, include_messages=True, filters={"metadata.mood": "calm"})
        assert stored.position == 1
        assert hit.record.id == stored.id
        assert hit.scope == session
        assert hit.record.occurred_at == said
        assert hit.record.metadata["speaker"] == "Al"
        assert hit.record.metadata["session_id"] == "s1"
        assert hit.record.metadata["role"] == "user"
        assert hit.record.metadata["position"] == 1

    def test_excluded_messages_neither_surface_nor_weigh(self, memory):
        """Messages that the caller has already change nothing in what else is found, or how it scores."""
        session = Scope.session("s1", user="alice")
        memory.sessions.append([Message(role=Role.USER, text="The tent is green.")], scope=session)
        now = Scope.session("s2", user="alice")
        before = memory.recall("which colour is the tent?", scope=ALICE, include_messages=True)
        asked = memory.sessions.append([Message(role=Role.USER, text="which colour is the tent?")], scope=now)
        after = memory.recall(
            "which colour is the tent?", scope=ALICE, include_messages=True, exclude_messages=asked
        )
        assert texts(after) == texts(before) == ["The tent is green."]
        assert after[0].signals.relevance == pytest.approx(before[0].signals.relevance, abs=0.05)
        with pytest.raises(InvalidInputError, match="exclude_messages"):
            memory.recall("x", scope=ALICE, exclude_messages=[Message(role=Role.USER, text="never stored")])

    def test_a_replaced_message_is_found_by_its_new_text_only(self, memory):
        """The same message id again replaces text and turn in place; a blank text removes the turn."""
        session = Scope.session("s1", user="alice")
        memory.sessions.append([Message(role=Role.USER, text="The tent is green.", id="m")], scope=session)
        memory.sessions.append([Message(role=Role.USER, text="The canoe is blue.", id="m")], scope=session)
        assert memory.flush()
        assert texts(memory.recall("tent green", scope=ALICE, include_messages=True)) == [
            "The canoe is blue."
        ]
        assert list(memory.recall("tent", scope=ALICE, include_messages=True, ranking=Ranking(dense=0))) == []
        memory.sessions.append([Message(role=Role.USER, text=" ", id="m")], scope=session)
        assert list(memory.recall("canoe", scope=ALICE, include_messages=True)) == []
        assert [m.text for m in memory.sessions.read(scope=session)] == [" "]
