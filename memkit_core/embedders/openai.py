"""OpenAI's embeddings, and those of every server that speaks its protocol, through langchain-openai."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from memkit_core.embedders.options import (
    checked_count,
    checked_number,
    checked_object,
    checked_text,
    revision_of,
)
from memkit_core.embedders.texts import cut_bytes, prefixes_of
from memkit_core.errors import ConfigError, MissingDependencyError, ModelError
from memkit_core.ports import Matrix, Vector

if TYPE_CHECKING:
    from langchain_openai import OpenAIEmbeddings
    from pydantic import SecretStr

MAX_BYTES = 8191
"""Longest text in bytes of UTF-8: OpenAI's models read 8,192 tokens, and no token is shorter than a byte."""

REQUEST_BYTES = 300_000
"""Longest request in bytes: OpenAI refuses more than 300,000 tokens in one
(https://platform.openai.com/docs/api-reference/embeddings/create)."""

_HIDDEN = "**********"


class OpenAIEmbedder:
    """A model behind OpenAI's embeddings endpoint. Thread-safe; retries are the client's.

    A text longer than `max_bytes` is cut there, at a whole character: the rule needs no tokenizer,
    whose tables would be downloaded, and can never exceed the model's tokens.

    The key shows in no repr, error, fingerprint or pickle. A pickle is one without it: what is
    unpickled takes the key from the environment, as a new one does that was given none.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        timeout: float = 30.0,
        max_retries: int = 2,
        max_bytes: int = MAX_BYTES,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        query_body: Mapping[str, object] | None = None,
        document_body: Mapping[str, object] | None = None,
        revision: str = "",
    ) -> None:
        """Nothing is sent yet.

        Args:
            model: its name on the server.
            api_key: None for the environment variable `OPENAI_API_KEY`, read by the client. A server
                that needs no key still needs some text here.
            base_url: such as `"http://127.0.0.1:8000/v1"`; None for the client's own.
            dimensions: shorter vectors, where the model can.
            timeout: seconds for one try, since recall waits for it.
            max_retries: further tries of the client after a failure that may pass.
            max_bytes: where longer texts are cut; more for a model that reads more, less for one
                that reads less and refuses instead of cutting.
            query_prefix: written before a query; None for what is known of the model (`PREFIXES`).
            document_prefix: the same for documents.
            query_body: fields of the request for a query, such as `{"input_type": "query"}`.
            document_body: the same for documents.
            revision: names other weights under the same model name.

        Raises:
            ConfigError: an option of the wrong type, or no key.
            MissingDependencyError: `langchain-openai` is not installed.
        """
        self._name = checked_text("model", model)
        self._dimensions = None if dimensions is None else checked_count("dimensions", dimensions, least=1)
        self._limit = checked_count("max_bytes", max_bytes, least=4)
        self._prefixes = prefixes_of(model, query=query_prefix, document=document_prefix)
        self._query_body = checked_object("query_body", query_body or {})
        self._document_body = checked_object("document_body", document_body or {})
        self.model = f"openai/{model}"
        self.revision = revision_of(
            revision=checked_text("revision", revision),
            query=self._prefixes.query,
            document=self._prefixes.document,
            query_body=self._query_body,
            document_body=self._document_body,
        )
        self._client, self._secrets = _client(
            self._name,
            key=_plain(api_key),
            base_url=base_url,
            dimensions=self._dimensions,
            timeout=checked_number("timeout", timeout, least=0.001),
            max_retries=checked_count("max_retries", max_retries, least=0),
        )
        self._options: dict[str, Any] = {
            "base_url": None if base_url is None else _without_login(base_url),
            "dimensions": dimensions,
            "timeout": timeout,
            "max_retries": max_retries,
            "max_bytes": max_bytes,
            "query_prefix": query_prefix,
            "document_prefix": document_prefix,
            "query_body": self._query_body,
            "document_body": self._document_body,
            "revision": revision,
        }

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed_documents`.

        Raises:
            ModelError: the server could not be reached, refused, or answered nonsense.
        """
        prepared = [cut_bytes(self._prefixes.document + text, self._limit) for text in texts]
        rows: list[list[float]] = []
        for request in _requests(prepared):
            rows.extend(self._ask(request, self._document_body))
        return np.asarray(rows, np.float32) if rows else np.zeros((0, self._dimensions or 0), np.float32)

    def embed_query(self, text: str) -> Vector:
        """See `Embedder.embed_query`.

        Raises:
            ModelError: the server could not be reached, refused, or answered nonsense.
        """
        rows = self._ask([cut_bytes(self._prefixes.query + text, self._limit)], self._query_body)
        return np.asarray(rows[0], np.float32)

    def _ask(self, texts: list[str], body: Mapping[str, object]) -> list[list[float]]:
        extra: dict[str, Any] = {"extra_body": body} if body else {}
        try:
            return self._client.embed_documents(texts, **extra)
        except Exception as error:  # noqa: BLE001 - raised again below, where the key can be hidden first
            failure = error
        plain = f"{type(failure).__name__}: {failure}"
        said = plain
        for secret in self._secrets:
            said = said.replace(secret.get_secret_value(), _HIDDEN)
        # A cause that shows the key is dropped: a traceback would print it.
        raise ModelError(said, model=self.model) from (failure if said == plain else None)

    def __repr__(self) -> str:
        """Model and revision; a URL may hold a password."""
        return f"{type(self).__name__}(model={self.model!r}, revision={self.revision!r})"

    def __deepcopy__(self, memo: dict[int, object]) -> OpenAIEmbedder:
        """The same embedder: it holds connections, and no state to copy."""
        return self

    def __copy__(self) -> OpenAIEmbedder:
        """The same embedder."""
        return self

    def __reduce__(self) -> tuple[Callable[..., OpenAIEmbedder], tuple[object, ...]]:
        """Pickle as "make it again", without the key and without a password in the URL."""
        return _make_again, (self._name, self._options)


def _make_again(model: str, options: dict[str, Any]) -> OpenAIEmbedder:
    return OpenAIEmbedder(model, **options)


def _client(
    model: str, *, key: str | None, base_url: object, timeout: float, max_retries: int, dimensions: int | None
) -> tuple[OpenAIEmbeddings, list[SecretStr]]:
    """The client, and the secrets it knows."""
    url = None if base_url is None else checked_text("base_url", base_url)
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError("embedder option 'base_url' must begin with http:// or https://")
    try:
        from langchain_openai import OpenAIEmbeddings
        from openai import OpenAIError
        from pydantic import SecretStr
    except ImportError as error:
        raise MissingDependencyError("langchain-openai", extra="openai") from error
    # An argument left out is read from the environment; one that is None is not.
    given: dict[str, Any] = {} if key is None else {"api_key": SecretStr(key)}
    if url is not None:
        given["base_url"] = url
    keyless = ConfigError(
        "the openai embedder needs a key: give {'provider': 'openai', 'api_key': ...} or set "
        "OPENAI_API_KEY; for a server that needs none any text will do"
    )
    try:
        client = OpenAIEmbeddings(
            model=model,
            dimensions=dimensions,
            timeout=timeout,
            max_retries=max_retries,
            # Its own way with long texts downloads tables of tiktoken, and sends tokens, which other
            # servers do not understand.
            check_embedding_ctx_length=False,
            **given,
        )
    except OpenAIError as error:  # at this point only for want of a key
        raise keyless from error
    used = client.openai_api_key
    if not isinstance(used, SecretStr) or not used.get_secret_value():
        raise keyless
    client.client = _InOrder(client.client)
    password = None if url is None else urlsplit(url).password
    return client, [used] if not password else [used, SecretStr(password)]


class _InOrder:
    """The client's endpoint with the vectors of an answer in the order of its texts.

    The protocol numbers them in `index`, which langchain-openai does not read. A server that gives
    all the same number means the order they came in.
    """

    def __init__(self, endpoint: Any) -> None:
        self._endpoint = endpoint

    def create(self, **request: Any) -> Any:
        answer = self._endpoint.create(**request)
        answer.data.sort(key=lambda one: getattr(one, "index", None) or 0)
        return answer


def _plain(key: object) -> str | None:
    """The text of a key; its value is in no error."""
    reveal = getattr(key, "get_secret_value", None)
    plain = reveal() if callable(reveal) else key
    if plain is not None and not (isinstance(plain, str) and plain):
        raise ConfigError(
            f"embedder option 'api_key' must be a string or a SecretStr, got {type(key).__name__}"
        )
    return plain


def _without_login(url: str) -> str:
    """`url` without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _requests(texts: Sequence[str]) -> Iterator[list[str]]:
    """`texts` in order, in lists of at most `REQUEST_BYTES` bytes."""
    request: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode("utf-8"))
        if request and size + length > REQUEST_BYTES:
            yield request
            request, size = [], 0
        request.append(text)
        size += length
    if request:
        yield request
