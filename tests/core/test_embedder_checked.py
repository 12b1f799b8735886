"""What memkit makes of any model: batches, a cache, and nothing but sound vectors."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core import ModelError
from memkit_core.embedders.checked import CheckedEmbedder

DIMENSION = 3


def vector(side, text):
    """A vector that tells side and text apart."""
    return np.array([1.0 if side == "document" else -1.0, len(text), hash(text) % 9973], np.float32)


class Recording:
    """A model that keeps what it was asked, in the calls it was asked in."""

    revision = "1"

    def __init__(self, model="recording"):
        self.model = model
        self.documents = []
        self.queries = []

    def embed_documents(self, texts):
        self.documents.append(list(texts))
        return np.array([vector("document", text) for text in texts])

    def embed_query(self, text):
        self.queries.append(text)
        return vector("query", text)


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class TestCallsToTheModel:
    @given(
        asked=st.lists(st.lists(st.sampled_from([f"text {i}" for i in range(12)] + ["", " "]), max_size=15)),
        batch=st.integers(1, 5),
        size=st.integers(0, 8),
    )
    def test_rows_follow_the_texts_and_only_misses_are_sent(self, asked, batch, size):
        """Each row is its text's, in order; what is sent was not cached, once a call, in batches.

        The cache is the plain model of an LRU: the last `size` texts that were read or written.
        """
        model = Recording()
        checked = CheckedEmbedder(model, batch=batch, cache_size=size)
        checked.embed_query("so that the dimension is known")
        recent = ["\0query"][:size]
        for texts in asked:
            model.documents.clear()
            rows = checked.embed_documents(texts)
            worded = [text for text in dict.fromkeys(texts) if text.strip()]
            expected = [vector("document", t) if t.strip() else np.zeros(DIMENSION) for t in texts]
            assert rows.shape == (len(texts), DIMENSION)
            assert np.array_equal(rows, np.array(expected, np.float32).reshape(len(texts), DIMENSION))
            misses = [text for text in worded if text not in recent]
            assert [text for call in model.documents for text in call] == misses
            assert all(len(call) <= batch for call in model.documents)
            assert len(model.documents) == -(-len(misses) // batch)
            for text in [*(t for t in worded if t in recent), *misses]:
                recent = [kept for kept in recent if kept != text] + [text]
                recent = recent[-size:] if size else []

    def test_one_call_takes_at_most_a_hundred_texts(self):
        """250 new texts are three calls, of 100, 100 and 50."""
        model = Recording()
        CheckedEmbedder(model).embed_documents([f"text {i}" for i in range(250)])
        assert [len(call) for call in model.documents] == [100, 100, 50]

    def test_the_sides_share_no_cache(self):
        """A text embedded as a document is embedded again as a query."""
        model = Recording()
        checked = CheckedEmbedder(model)
        document = checked.embed_documents(["tea"])[0]
        assert not np.array_equal(checked.embed_query("tea"), document)
        assert (model.documents, model.queries) == ([["tea"]], ["tea"])

    def test_a_repeated_query_is_asked_once(self):
        """The second recall of the same words costs no call."""
        model = Recording()
        checked = CheckedEmbedder(model)
        assert np.array_equal(checked.embed_query("tea"), checked.embed_query("tea"))
        assert model.queries == ["tea"]

    def test_an_entry_lives_for_its_time(self):
        """After `cache_seconds` a text is embedded again, however often it was read."""
        model, clock = Recording(), Clock()
        checked = CheckedEmbedder(model, cache_seconds=60, monotonic=clock)
        for clock.now in (0, 30, 60):
            checked.embed_query("tea")
        assert model.queries == ["tea"]
        clock.now = 60.1
        checked.embed_query("tea")
        assert model.queries == ["tea", "tea"]

    def test_a_changed_name_or_revision_shares_no_cache(self):
        """The cache is keyed by the fingerprint: a model that becomes another starts anew."""
        model = Recording()
        checked = CheckedEmbedder(model)
        for model.model, model.revision in (("a", "1"), ("b", "1"), ("b", "2"), ("b", "2")):
            checked.embed_query("tea")
        assert model.queries == ["tea"] * 3

    def test_blank_text_is_never_sent(self):
        """White space is a zero vector: services refuse it, and it means nothing."""
        model = Recording()
        checked = CheckedEmbedder(model)
        assert not checked.embed_documents(["", " \n", "\u3000"]).any()
        assert checked.embed_documents(["", "tea"])[1].any()
        assert not checked.embed_query("  ").any()
        assert model.documents == [["tea"]]
        assert model.queries == ["dimension"]  # the one question whose answer has the length

    def test_no_texts_ask_nothing(self):
        """An empty list is an empty matrix without a call."""
        model = Recording()
        assert CheckedEmbedder(model).embed_documents([]).shape == (0, 0)
        assert model.documents == []

    def test_a_caller_may_change_what_it_got(self):
        """Arrays belong to the caller: the next answer is not touched."""
        checked = CheckedEmbedder(Recording())
        checked.embed_query("tea")[:] = 7
        checked.embed_query("tea")[:] = 7
        checked.embed_documents(["tea"])[:] = 7
        assert np.array_equal(checked.embed_query("tea"), vector("query", "tea"))
        assert np.array_equal(checked.embed_documents(["tea"])[0], vector("document", "tea"))

    def test_a_model_may_reuse_its_own_array(self):
        """What the model returned stays the model's: overwriting it changes no cached vector."""

        class Reusing(Recording):
            buffer = np.zeros((1, DIMENSION), np.float32)

            def embed_documents(self, texts):
                self.buffer[0] = vector("document", texts[0])
                return self.buffer

        checked = CheckedEmbedder(Reusing())
        first = checked.embed_documents(["one"])
        checked.embed_documents(["twelve"])
        assert np.array_equal(first, checked.embed_documents(["one"]))
        assert np.array_equal(first[0], vector("document", "one"))


class TestTheSpace:
    def test_the_dimension_is_found_on_first_use(self):
        """Nothing is asked before the first text; then length, name and revision are the space."""
        checked = CheckedEmbedder(Recording())
        assert checked.dimension is None
        checked.embed_documents(["tea"])
        assert checked.dimension == DIMENSION
        space = checked.space()
        assert (space.model, space.revision, space.dimension) == ("recording", "1", DIMENSION)

    def test_the_space_of_an_unused_model_costs_one_text(self):
        """Asked for its space first, the model embeds one short text, once."""
        model = Recording()
        checked = CheckedEmbedder(model)
        assert checked.space() == checked.space()
        assert len(model.queries) == 1


def answering(answer):
    """An embedder whose model returns, or raises, the same for every call."""

    class Answering(Recording):
        def embed_documents(self, texts):
            if isinstance(answer, BaseException):
                raise answer
            return answer

        def embed_query(self, text):
            return self.embed_documents([text])

    return CheckedEmbedder(Answering())


class TestNonsense:
    @pytest.mark.parametrize(
        "answer",
        [
            [[1.0, 2.0]],
            [[1.0, 2.0]] * 3,
            [],
            [[], []],
            [1.0, 2.0],
            [[1.0, 2.0], [1.0]],
            [[1.0, float("nan")], [1.0, 2.0]],
            [[1.0, float("inf")], [1.0, 2.0]],
            [[1.0, 1e300], [1.0, 2.0]],
            [[1.0, 1e30], [1.0, 2.0]],
            [[1.0, None], [1.0, 2.0]],
            [["a", "b"], ["c", "d"]],
            None,
            {},
            np.zeros((2, 2, 2)),
            (row for row in [[1.0], [2.0]]),
        ],
        ids=lambda answer: str(answer)[:30].replace("\n", " "),
    )
    def test_an_answer_that_is_no_matrix_of_the_texts_is_an_error(self, answer):
        """Wrong counts, lengths, shapes, kinds, NaN and infinity are a ModelError, never a vector."""
        with pytest.raises(ModelError, match="model 'recording'"):
            answering(answer).embed_documents(["one", "two"])

    @pytest.mark.parametrize("answer", [[], [[1.0]], [float("nan")], None, "text"], ids=str)
    def test_a_query_that_is_no_vector_is_an_error(self, answer):
        """The same holds for the one vector of a query."""
        with pytest.raises(ModelError):
            answering(answer).embed_query("one")

    def test_a_vector_of_another_length_is_an_error(self):
        """The first vector's length holds for good; a later one of another length is refused."""

        class Growing(Recording):
            def embed_documents(self, texts):
                return np.ones((len(texts), DIMENSION + 1), np.float32)

        checked = CheckedEmbedder(Growing())
        checked.embed_query("tea")
        with pytest.raises(ModelError, match="4 dimensions, those before have 3"):
            checked.embed_documents(["tea"])

    def test_an_exception_of_the_model_is_its_cause(self):
        """The error names the model and the reason, and keeps the exception."""
        cause = RuntimeError("rate limit")
        with pytest.raises(ModelError, match="RuntimeError: rate limit") as caught:
            answering(cause).embed_documents(["one"])
        assert caught.value.__cause__ is cause
        assert caught.value.model == "recording"

    def test_a_long_reason_is_cut(self):
        """A model that repeats the text in its exception does not fill logs and outbox with it."""
        with pytest.raises(ModelError) as caught:
            answering(ValueError("word " * 100_000)).embed_documents(["one"])
        assert len(str(caught.value)) < 700

    def test_a_model_error_passes_as_it_is(self):
        """An embedder that speaks memkit's errors is not wrapped twice."""
        error = ModelError("down", model="recording")
        with pytest.raises(ModelError) as caught:
            answering(error).embed_documents(["one"])
        assert caught.value is error

    def test_an_interrupt_is_not_an_answer(self):
        """Control-C goes through."""
        with pytest.raises(KeyboardInterrupt):
            answering(KeyboardInterrupt()).embed_documents(["one"])

    def test_a_failed_call_returns_nothing_and_keeps_what_was_right(self):
        """When the second batch fails the call fails; the first is not paid for again."""

        class Second(Recording):
            def embed_documents(self, texts):
                rows = super().embed_documents(texts)
                if len(self.documents) == 2:
                    raise RuntimeError("rate limit")
                return rows

        model = Second()
        checked = CheckedEmbedder(model, batch=2)
        with pytest.raises(ModelError):
            checked.embed_documents(["a", "b", "c"])
        checked.embed_documents(["a", "b", "c"])
        assert model.documents == [["a", "b"], ["c"], ["c"]]

    def test_a_lone_surrogate_is_the_models_to_refuse(self):
        """Text that no encoding takes is a ModelError when the model cannot take it, nothing else."""

        class Encoding(Recording):
            def embed_query(self, text):
                text.encode()
                return super().embed_query(text)

        with pytest.raises(ModelError, match="UnicodeEncodeError"):
            CheckedEmbedder(Encoding()).embed_query("\ud800")


def test_many_threads_get_their_own_rows():
    """Threads that share texts and cache each get the rows of their own texts."""
    checked = CheckedEmbedder(Recording(), batch=3, cache_size=5)
    ready = threading.Barrier(8)

    def work(seed):
        ready.wait()
        for turn in range(60):
            texts = [f"text {(seed * turn + step) % 11}" for step in range(7)]
            expected = np.array([vector("document", text) for text in texts])
            assert np.array_equal(checked.embed_documents(texts), expected)
            assert np.array_equal(checked.embed_query(texts[0]), vector("query", texts[0]))

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, seed) for seed in range(8)]:
            done.result()
