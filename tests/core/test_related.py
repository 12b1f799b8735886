"""Words related to those of a query count as a part of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core import Memory, Message, Ranking, RecallResult, Role, Scope
from memkit_core.embedders.checked import CheckedEmbedder
from memkit_core.embedders.wordllama import WordLlamaEmbedder
from memkit_core.errors import ModelError
from memkit_core.recall.bm25 import bm25, counts_of_related
from memkit_core.recall.related import relatedness
from memkit_core.recall.words import Words, WordTable
from memkit_core.text.tokenizer import content_words, keyword_terms, word_term

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ALICE = Scope.user("alice")

VECTORS = {
    "dog": (1.0, 0.0, 0.0),
    "puppy": (0.8, 0.6, 0.0),
    "hound": (0.6, 0.8, 0.0),
    "tax": (0.0, 0.0, 1.0),
    "barks": (0.9, 0.0, 0.0),
}


class TextEmbedder:
    """Embeds texts, and knows nothing of words."""

    model, revision = "own", ""

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([[len(text), 1.0] for text in texts], np.float32)

    def embed_query(self, text: str) -> np.ndarray:
        return self.embed_documents([text])[0]


class HalfEmbedder(TextEmbedder):
    """Embeds texts, and fails on words."""

    model = "half"

    def embed_words(self, words: Sequence[str]) -> np.ndarray:
        raise ValueError("no words today")


def vectors(words: Sequence[str]) -> np.ndarray:
    """Vectors of a few words; the rest is unknown."""
    return np.array([VECTORS.get(word, (0.0, 0.0, 0.0)) for word in words], np.float32)


def related(query: str, texts: list[str], *, rows: list[int] | None = None) -> np.ndarray:
    """`relatedness` to a query of texts, of which those of `rows` were found, as a pipeline calls it."""
    table = WordTable(vectors)
    terms = list(dict.fromkeys(keyword_terms(query)))
    counts = np.array([[keyword_terms(text).count(term) for term in terms] for text in texts], float)
    found = np.arange(len(texts)) if rows is None else np.array(rows)
    words = table.numbers([texts[row] for row in found])
    return relatedness(query, terms, counts, found, words, table)


def test_the_square_of_the_cosine() -> None:
    """A row counts by the square of the cosine of its nearest word that is related, however many it has."""
    found = related(
        "my dog", ["a puppy", "a hound", "a puppy and a hound", "the tax", "nothing", "dog", "dog", "dog"]
    )
    column = found[:, keyword_terms("my dog").index("dog")]
    assert column[0] == pytest.approx(0.64)
    assert column[1] == pytest.approx(0.36)
    assert column[2] == pytest.approx(0.64)
    assert not column[3:].any()


def test_the_word_itself_is_no_related_word() -> None:
    """A row with the term itself has nothing more of it, and a word of the query stands for no other one."""
    assert not related("dog", ["dog and puppy"]).any()
    assert not related("dog barks", ["barks"]).any()


def test_a_common_word_says_less() -> None:
    """Of two words equally near, the one that most rows have says less than the word of the query would."""
    rare = related("dog", ["puppy", *["tax"] * 9])[0, 0]
    common = related("dog", ["puppy"] * 9 + ["tax"])[0, 0]
    assert 0 < common < rare / 5


def test_only_rows_that_were_found() -> None:
    """Other rows of the pool have nothing, whatever they say."""
    first, second, third = related("dog", ["puppy", "tax", "puppy", "dog"], rows=[1, 2, 3])[:3, 0]
    assert first == second == 0 < third


@given(
    st.lists(st.text("dgp abtx", max_size=30) | st.sampled_from([*VECTORS, "a puppy", "开会"]), max_size=6)
)
def test_bounds(texts: list[str]) -> None:
    """Whatever the texts, the numbers are from 0 to 1, and 0 where the term stands."""
    found = related("Does the dog bark? tax", texts)
    assert ((found >= 0) & (found <= 1)).all()
    for text, row in zip(texts, found, strict=True):
        for term, one in zip(dict.fromkeys(keyword_terms("Does the dog bark? tax")), row, strict=True):
            assert not (one and term in keyword_terms(text))


@given(st.floats(0, 1))
def test_a_part_of_an_occurrence(share: float) -> None:
    """The count for a related word brings that share of the score of a whole one, in a text of usual length."""
    counts, usual = np.array([[1.0], [counts_of_related(np.array(share))]]), np.array([9.0, 9.0])
    whole, part = bm25(counts, usual, np.ones(1))
    assert part == pytest.approx(share * whole)


class TestWords:
    """Words and their numbers."""

    def test_numbers(self) -> None:
        """A word keeps its number, each text has each word once, and unknown words are left out."""
        table = WordTable(vectors)
        first, again = table.numbers(["Dog, puppy! Dog? xyz", "tax puppy"])
        assert np.frombuffer(first, np.int32).tolist() == [0, 1]
        assert np.frombuffer(again, np.int32).tolist() == [2, 1]
        assert np.allclose(np.linalg.norm(table.vectors(np.array([0, 1, 2])), axis=1), 1)
        assert [table.term(number) for number in range(3)] == ["dog", word_term("puppy"), "tax"]

    def test_no_more_than_there_is_room_for(self) -> None:
        """Beyond the most words that are kept new ones are unknown, and the old ones stay."""
        table = WordTable(vectors, most=2)
        assert [len(one) // 4 for one in table.numbers(["dog puppy", "hound", "puppy tax"])] == [2, 0, 1]
        assert table.full

    def test_a_full_table_is_begun_anew(self) -> None:
        """The recall after the one that filled the table knows new words, by the model in use."""
        words = Words(CheckedEmbedder(WordLlamaEmbedder()))
        model = CheckedEmbedder(WordLlamaEmbedder())
        table = words.table(model)
        assert words.table(model) is table
        letters = "abcdefghijklmnopqrst"
        table.numbers(
            [" ".join(a + b + c + d for b in letters for c in letters for d in letters) for a in letters]
        )
        assert table.full
        assert table.numbers(["marmalade"]) == [b""]
        assert words.table(model) is not table
        assert words.table(model).numbers(["marmalade"]) != [b""]

    def test_objects_of_one_model_share_their_words(self) -> None:
        """Memories of one file may each have an object of the model: words that one met are known, new ones ask the last."""
        words, other = Words(CheckedEmbedder(WordLlamaEmbedder())), CheckedEmbedder(HalfEmbedder())
        table = words.table(CheckedEmbedder(WordLlamaEmbedder()))
        assert words.table(CheckedEmbedder(WordLlamaEmbedder())) is table
        assert words.table(other) is not table

        class Closed(WordLlamaEmbedder):
            def embed_words(self, words: Sequence[str]) -> np.ndarray:
                raise ValueError("closed")

        words.table(CheckedEmbedder(Closed()))
        assert words.table(CheckedEmbedder(WordLlamaEmbedder())).numbers(["marmalade"]) != [b""]

    def test_vectors_of_another_length(self) -> None:
        """A model that changes the length of its vectors is told of, and the words before keep theirs."""

        class Embedder:
            model, revision = "changing", ""
            lengths = iter([3, 2])

            def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
                return np.ones((len(texts), 4), np.float32)

            def embed_query(self, text: str) -> np.ndarray:
                return np.ones(4, np.float32)

            def embed_words(self, words: Sequence[str]) -> np.ndarray:
                return np.ones((len(words), next(self.lengths)), np.float32)

        table = WordTable(CheckedEmbedder(Embedder()).embed_words)
        before = table.numbers(["dog"])
        with pytest.raises(ModelError, match="2 dimensions for words, before 3"):
            table.numbers(["puppy"])
        assert table.numbers(["dog"]) == before

    @given(st.text())
    def test_content_words(self, text: str) -> None:
        """Each content word stands for one of the terms by which the text is found."""
        assert {word_term(word) for word in content_words(text)} <= set(keyword_terms(text))

    def test_what_is_no_word(self) -> None:
        """Stop words, numbers, identifiers and pairs of characters are no words; accents and case go."""
        assert content_words("The CAFÉ at POL-358 isn't 42 开会 of Zoë's") == ["cafe", "pol", "zoe"]


def tell(memory: Memory, *texts: str) -> None:
    """Append each text as the only turn of a session of its own."""
    for number, text in enumerate(texts):
        said = Message(role=Role.USER, speaker="Ann", text=text)
        memory.sessions.append([said], scope=Scope.session(f"s{number}", user="alice"))


def ask(memory: Memory, query: str, **options: Any) -> RecallResult:
    """Recall the turns of all sessions."""
    return memory.recall(query, scope=ALICE, include_messages=True, **options)


class TestRecall:
    """Recall with the built-in model."""

    def test_a_related_word_decides(self, memory: Memory) -> None:
        """Of two turns that share one word with a query the one with a related word is first, and says so."""
        tell(
            memory, "We adopted a puppy in spring", "We adopted a budget in spring", "The car needs new tyres"
        )
        words_only = Ranking(dense=0.0, newer=0.0, importance=0.0, recency=0.0)
        first, second = ask(memory, "Which dog was adopted?", ranking=words_only)
        assert "puppy" in first.record.content
        assert first.score > second.score
        assert first.signals.lifts["related"] > 0
        assert "related" in first.why
        plain = Ranking(dense=0.0, newer=0.0, importance=0.0, recency=0.0, related=0.0)
        equal = ask(memory, "Which dog was adopted?", ranking=plain)
        assert equal[0].score == equal[1].score
        assert not any("related" in hit.signals.lifts for hit in equal)

    def test_only_turns(self, memory: Memory) -> None:
        """A memory is no turn: it is found by its own words, alone and beside turns."""
        tell(memory, "We adopted a puppy in spring")
        memory.add("Alice adopted a puppy", scope=ALICE)
        for hit in (
            *ask(memory, "Which dog was adopted?"),
            *memory.recall("Which dog was adopted?", scope=ALICE),
        ):
            assert ("related" in hit.signals.lifts) == (hit.record.speaker is not None)

    def test_copy_and_store_agree(self, memory: Memory) -> None:
        """A recall that reads the store gives the same scores as one from memory."""
        tell(memory, *(f"{word} number {n}" for n, word in enumerate(("puppy", "tax", "hound", "loan") * 4)))
        memory.flush()
        stored = ask(memory, "dog number", filters={"importance": {"gte": 0}})
        for _ in range(3):
            copied = ask(memory, "dog number")
        assert any("related" in hit.signals.lifts for hit in stored)
        assert [(hit.record.id, pytest.approx(hit.score)) for hit in copied] == [
            (hit.record.id, hit.score) for hit in stored
        ]

    def test_a_model_that_fails_on_words(self, tmp_path: Path) -> None:
        """When only the comparing of words fails, recall answers without it and says that a leg was missing."""

        with Memory.open(tmp_path / "m.db", embedder=HalfEmbedder()) as memory:
            tell(memory, "We adopted a puppy")
            memory.flush()
            answer = ask(memory, "adopted dog")
        assert [hit.record.content for hit in answer] == ["We adopted a puppy"]
        assert answer.missing == {"related"}

    def test_without_the_built_in_weights(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With an embedder of one's own recall also answers where the built-in one is not installed."""
        monkeypatch.setattr("memkit_core.embedders.wordllama.importlib.util.find_spec", lambda _: None)
        not_loaded = Words(CheckedEmbedder(WordLlamaEmbedder()))
        monkeypatch.setattr("memkit_core.connect.shared_words", lambda: not_loaded)
        with Memory.open(tmp_path / "m.db", embedder=TextEmbedder()) as memory:
            tell(memory, "We adopted a puppy")
            memory.flush()
            answer = ask(memory, "adopted dog")
        assert [hit.record.content for hit in answer] == ["We adopted a puppy"]
        assert answer.missing == {"related"}

    def test_a_long_query_takes_little_room(self) -> None:
        """A query of more words than are kept leaves room for the words of later rows."""
        table = WordTable(lambda words: np.ones((len(words), 3)), most=1000)
        query = " ".join(
            f"{a}{b}{c}{d}" for a in "bcdfg" for b in "aeiou" for c in "lmnprstvwxz" for d in "aeiou"
        )
        found = relatedness(query, ["dog"], np.zeros((1, 1)), np.array([0]), table.numbers(["puppy"]), table)
        assert found.shape == (1, 1)
        assert all(table.numbers(["hound"]))

    def test_more_words_than_are_compared(self, memory: Memory) -> None:
        """A query of thousands of words is answered."""
        tell(memory, "We adopted a puppy")
        query = " ".join(f"{a}{b}{c}ing" for a in "bcdfg" for b in "aeiou" for c in "lmnprstvwxz") + " puppy"
        assert len(ask(memory, query * 8)) == 1


@given(
    st.lists(
        st.text(min_size=1)
        | st.sampled_from(["dog", "puppy", "Kickboxing", "x", "caf\u00e9", "\u5f00\u4f1a", "a b"])
    )
)
def test_words_of_the_built_in_model(words: list[str]) -> None:
    """Many words at once get what each gets alone: the beginning of its vector, or zeros if the model does not know it."""
    model = WordLlamaEmbedder()
    found = model.embed_words(words)
    assert found.shape == (len(words), 128)
    for word, row in zip(words, found, strict=True):
        alone = model.embed_query(word)[:128] if model.knows(word) == 1 else np.zeros(128)
        np.testing.assert_allclose(row, alone, atol=1e-6)
