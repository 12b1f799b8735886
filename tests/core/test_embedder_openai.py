"""The OpenAI embedder: the contract on recordings of a real server, and what is sent, cut and hidden."""

import copy
import json
import pickle
import sys
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core import ConfigError, ModelError
from memkit_core.embedders import resolve_embedder
from memkit_core.embedders.checked import CheckedEmbedder
from memkit_core.embedders.openai import MAX_BYTES, REQUEST_BYTES, _requests
from memkit_core.embedders.texts import cut_bytes
from memkit_core.testing import EmbedderContract

pytest.importorskip("langchain_openai")

KEY = "sk-of-this-test-only"
DIMENSION = 4


@pytest.fixture
def recorded():
    """The options that the recordings were made with; the server is told the side in the body."""
    return {
        "provider": "openai",
        "model": "multilingual-e5-small",
        "base_url": "http://127.0.0.1:8089/v1",
        "api_key": KEY,
        "max_retries": 0,
        "query_body": {"input_type": "query"},
        "document_body": {"input_type": "passage"},
    }


@pytest.fixture(scope="module")
def vcr_cassette_dir():
    return str(Path(__file__).parents[1] / "cassettes" / "embedder_openai")


@pytest.fixture(scope="module")
def vcr_config():
    """Matched by method, path and body; of the headers only the kind of content is kept."""

    def bare_request(request):
        request.headers = {"content-type": "application/json"}
        return request

    def bare_response(response):
        response["headers"] = {"Content-Type": ["application/json"]}
        return response

    return {
        "match_on": ["method", "path", "body"],
        "before_record_request": bare_request,
        "before_record_response": bare_response,
    }


@pytest.mark.vcr
@pytest.mark.block_network
class TestOpenAI(EmbedderContract):
    """Replayed with the network blocked, so that no table of a tokenizer can be downloaded either."""

    sides_differ = True
    # OpenAI's own service does; the server of the recordings would not.
    reads_blank = False

    @pytest.fixture
    def embedder(self, recorded):
        return resolve_embedder(recorded)


@pytest.mark.vcr
@pytest.mark.block_network
def test_blank_texts_are_not_in_the_request(recorded):
    """Of three texts, two blank, one is sent: the recording answers to no other body."""
    checked = CheckedEmbedder(resolve_embedder(recorded))
    rows = checked.embed_documents(["", "tea", " \n"])
    assert [bool(row.any()) for row in rows] == [False, True, False]
    assert not checked.embed_query(" ").any()
    assert checked.space().fingerprint == (
        'openai/multilingual-e5-small|query_body={"input_type": "query"}; '
        'document_body={"input_type": "passage"}|384'
    )


@pytest.mark.vcr
@pytest.mark.block_network
def test_meaning_survives_the_wire(recorded):
    """A question is nearer to the document that answers it than to the others."""
    embedder = resolve_embedder(recorded)
    rows = embedder.embed_documents(["The spare key is under the blue pot.", "Tea needs four minutes."])
    key, tea = rows @ embedder.embed_query("Where do I find the key?")
    assert key > tea + 0.05


class Server:
    """A server on loopback that keeps requests and answers with `reply(body) -> (status, object)`."""

    def __init__(self):
        self.bodies, self.keys = [], []
        self.reply = self.vectors
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.bodies.append(body)
                outer.keys.append(self.headers["Authorization"])
                status, answer = outer.reply(body)
                sent = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @staticmethod
    def vectors(body):
        rows = [[float(len(text)), 1.0, 2.0, 3.0] for text in body["input"]]
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return 200, {"object": "list", "data": data, "model": body["model"], "usage": usage}

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


@pytest.fixture
def options(server):
    return {
        "provider": "openai", "model": "m", "base_url": server.url, "api_key": KEY, "max_retries": 0,
    }  # fmt: skip


class TestWhatIsSent:
    def test_a_request_says_model_and_texts(self, server, options):
        """The texts go as they are, with model, key and wanted dimensions."""
        resolve_embedder({**options, "dimensions": DIMENSION}).embed_documents(["a", "bb"])
        assert server.keys == [f"Bearer {KEY}"]
        [body] = server.bodies
        assert (body["model"], body["input"], body["dimensions"]) == ("m", ["a", "bb"], DIMENSION)

    def test_prefixes_mark_the_sides(self, server, options):
        """Each side has its own prefix, and the fingerprint knows both."""
        given = {**options, "query_prefix": "q: ", "document_prefix": "d: "}
        embedder = resolve_embedder(given)
        embedder.embed_documents(["tea"])
        embedder.embed_query("tea")
        assert [body["input"] for body in server.bodies] == [["d: tea"], ["q: tea"]]
        assert embedder.revision == 'query="q: "; document="d: "'

    def test_known_models_get_their_prefixes(self, server, options):
        """A model whose card asks for prefixes gets them; "" turns them off."""
        known = {**options, "model": "intfloat/multilingual-e5-small"}
        resolve_embedder(known).embed_query("tea")
        resolve_embedder({**known, "query_prefix": ""}).embed_query("tea")
        assert [body["input"] for body in server.bodies] == [["query: tea"], ["tea"]]

    def test_a_secret_string_is_a_key(self, server, options):
        """The key may come wrapped in pydantic's SecretStr."""
        secret = pytest.importorskip("pydantic").SecretStr(KEY)
        resolve_embedder({**options, "api_key": secret}).embed_query("a")
        assert server.keys == [f"Bearer {KEY}"]

    def test_the_key_may_come_from_the_environment(self, server, options, monkeypatch):
        """Without `api_key` the client reads OPENAI_API_KEY."""
        monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")
        del options["api_key"]
        resolve_embedder(options).embed_query("a")
        assert server.keys == ["Bearer of-the-environment"]

    def test_retries_are_the_clients(self, server, options):
        """A failure that may pass is tried again as often as the option says."""
        replies = iter([(500, {"error": {"message": "busy"}})])
        server.reply = lambda body: next(replies, None) or server.vectors(body)
        assert resolve_embedder({**options, "max_retries": 1}).embed_query("abc")[0] == 3
        assert len(server.bodies) == 2

    def test_many_long_texts_are_several_requests(self, server, options):
        """Together at most 300,000 bytes go in one request; rows stay in order."""
        texts = ["x" * (8000 - i) for i in range(80)]
        rows = resolve_embedder(options).embed_documents(texts)
        assert rows[:, 0].tolist() == [8000 - i for i in range(80)]
        assert len(server.bodies) == 3

    def test_a_long_text_is_cut(self, server, options):
        """At most 8,191 bytes of a text are sent, prefix included, and `max_bytes` changes that."""
        long = "東" * 10_000
        resolve_embedder({**options, "document_prefix": "d: "}).embed_documents([long, "short"])
        resolve_embedder({**options, "max_bytes": 10}).embed_query(long)
        first, second = server.bodies
        assert first["input"][0] == "d: " + "東" * ((MAX_BYTES - 3) // 3)
        assert first["input"][1] == "d: short"
        assert second["input"] == ["東東東"]


class TestTheKey:
    @pytest.fixture
    def embedder(self, options):
        return resolve_embedder(options)

    def test_no_repr_or_fingerprint_shows_it(self, embedder):
        """Key and URL are in no text that is meant to be read."""
        for text in (repr(embedder), str(embedder), embedder.model, embedder.revision, str(vars(embedder))):
            assert KEY not in text
        assert repr(embedder) == "OpenAIEmbedder(model='openai/m', revision='')"

    def test_no_error_shows_it(self, server, embedder):
        """A server that repeats the key in its refusal does not bring it into error or traceback."""
        server.reply = lambda _: (401, {"error": {"message": f"Incorrect API key provided: {KEY}."}})
        with pytest.raises(ModelError, match=r"Incorrect API key provided: \*\*\*") as caught:
            CheckedEmbedder(embedder).embed_query("a")
        assert KEY not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__context__ is None

    def test_another_error_keeps_its_cause(self, server, embedder):
        """A failure that shows no key is chained, so that its status can be read."""
        server.reply = lambda _: (429, {"error": {"message": "slow down"}})
        with pytest.raises(ModelError, match=r"RateLimitError.*slow down") as caught:
            embedder.embed_documents(["a"])
        assert caught.value.__cause__.status_code == 429

    def test_no_pickle_holds_it(self, server, embedder, monkeypatch):
        """What is unpickled has every option but the key, which it takes from the environment."""
        pickled = pickle.dumps(embedder)
        assert KEY.encode() not in pickled
        monkeypatch.setenv("OPENAI_API_KEY", "another")
        pickle.loads(pickled).embed_query("a")
        assert server.keys == ["Bearer another"]
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(ConfigError, match="needs a key"):
            pickle.loads(pickled)

    def test_a_password_in_the_url_is_hidden_too(self, options):
        """Neither repr nor pickle has it."""
        url = "http://someone:pass-word@127.0.0.1:9/v1"
        embedder = resolve_embedder({**options, "base_url": url})
        assert "pass-word" not in repr(embedder)
        assert b"pass-word" not in pickle.dumps(embedder)

    def test_a_copy_is_the_same_embedder(self, embedder):
        """Frameworks that copy what they hold keep a working one."""
        assert copy.deepcopy(embedder) is embedder
        assert copy.copy(embedder) is embedder


class TestWhatIsRefused:
    def test_no_key_is_an_error_at_once(self, options, monkeypatch):
        """Without a key anywhere the embedder is refused when it is chosen, with the remedy."""
        del options["api_key"]
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(ConfigError, match="set OPENAI_API_KEY"):
            resolve_embedder(options)
        monkeypatch.setenv("OPENAI_API_KEY", "")
        with pytest.raises(ConfigError, match="set OPENAI_API_KEY"):
            resolve_embedder(options)

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("api_key", 12345),
            ("api_key", ""),
            ("base_url", "127.0.0.1:8000"),
            ("base_url", 8000),
            ("dimensions", 0),
            ("dimensions", "64"),
            ("dimensions", True),
            ("timeout", -1),
            ("timeout", float("nan")),
            ("timeout", "10"),
            ("max_retries", 1.5),
            ("max_bytes", 3),
            ("query_prefix", 1),
            ("document_body", "x"),
            ("query_body", {"a": {1, 2}}),
            ("query_body", {1: 2}),
            ("revision", None),
        ],
    )
    def test_an_option_of_the_wrong_type_is_an_error(self, options, option, value):
        """Each option is checked and named."""
        with pytest.raises(ConfigError, match=f"'{option}'") as caught:
            resolve_embedder({**options, option: value})
        if option == "api_key":
            assert "12345" not in str(caught.value)

    def test_an_unreachable_server_is_a_model_error(self, server, options):
        """No answer is the model's failure, which memory lives with."""
        server.close()
        with pytest.raises(ModelError, match="APIConnectionError"):
            resolve_embedder(options).embed_query("a")

    @pytest.mark.parametrize("numbered", [True, False])
    def test_vectors_are_matched_by_their_number(self, server, options, numbered):
        """An answer in another order is put right by `index`; without numbers its order counts."""

        def reply(body):
            status, answer = server.vectors(body)
            if numbered:
                answer["data"].reverse()
            else:
                answer["data"] = [{**one, "index": 0} for one in answer["data"]]
            return status, answer

        server.reply = reply
        assert resolve_embedder(options).embed_documents(["a", "bb", "ccc"])[:, 0].tolist() == [1, 2, 3]

    def test_a_server_that_leaves_a_text_out_is_found(self, server, options):
        """Fewer vectors than texts are an error, never shifted to the wrong text."""

        def shorter(body):
            status, answer = server.vectors(body)
            return status, {**answer, "data": answer["data"][1:]}

        server.reply = shorter
        with pytest.raises(ModelError, match="shape"):
            CheckedEmbedder(resolve_embedder(options)).embed_documents(["a", "bb"])


class TestTheCut:
    @given(text=st.text(max_size=60), limit=st.integers(4, 80))
    def test_it_keeps_as_many_whole_characters_as_fit(self, text, limit):
        """The cut is a beginning of the text within the limit, and one character more would not fit."""
        kept = cut_bytes(text, limit)
        assert text.startswith(kept)
        assert len(kept.encode()) <= limit
        assert kept == text or len(text[: len(kept) + 1].encode()) > limit

    @given(st.lists(st.integers(0, MAX_BYTES), max_size=200))
    def test_requests_are_full_and_in_order(self, lengths):
        """No request is above the limit or empty, none could take the next one's first text."""
        texts = ["x" * length for length in lengths]
        requests = list(_requests(texts))
        assert [text for request in requests for text in request] == texts
        sizes = [sum(map(len, request)) for request in requests]
        assert all(size <= REQUEST_BYTES for size in sizes)
        for size, following in zip(sizes, requests[1:], strict=False):
            assert size + len(following[0]) > REQUEST_BYTES


def test_vectors_are_float32(options):
    """What came as JSON numbers is float32."""
    assert resolve_embedder(options).embed_documents(["a"]).dtype == np.float32


def test_pytest_recording_is_there():
    """Without the plugin the marks above would mean nothing and the tests would look for a server."""
    assert "pytest_recording" in sys.modules
