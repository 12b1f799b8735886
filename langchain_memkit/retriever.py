"""`MemkitRetriever`: recall as a LangChain retriever."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict, Field, InstanceOf

from langchain_memkit.convert import to_documents
from memkit_core import InvalidInputError, Memory, Ranking, RecordType, Scope, ScopeError, parse_filter
from memkit_core.degraded import warn_degraded
from memkit_core.errors import shown

_LOGGER = logging.getLogger("memkit.langchain")


class MemkitRetriever(BaseRetriever):
    """Recalls what is remembered in the named scopes, best first, for RAG chains.

    Setup:
        `pip install 'memkit-llm[langchain]'`

    Instantiate:
        ```python
        retriever = MemkitRetriever(memory=memory, scope=Scope.user("alice"), k=5)
        ```

    Usage:
        `invoke`, `ainvoke`, `batch` and so on; `invoke(query, k=3)` for another number of documents.
        Any other keyword raises `InvalidInputError`: nothing is answered unfiltered by mistake. A
        blank query finds nothing.

    Scope per request:
        Leave `scope` out and let each call name it:
        ```python
        retriever = MemkitRetriever(memory=memory).configurable_fields(scope=ConfigurableField(id="scope"))
        retriever.invoke(query, config={"configurable": {"scope": Scope.user("alice")}})
        ```
        A call that names none, or misspells the key, then raises `ScopeError`. A retriever that was
        built with a scope as well would answer such a call from that scope: never do both.

    Documents:
        `page_content` is the content, `id` the id of the record (of its index point where two hits
        of one result share a record id). The record's own metadata stands in `metadata` under its
        own keys, ours beside it as `memkit_id`, `memkit_scope` (readable), `memkit_space`
        (`"memories"` or `"messages"`), `memkit_type`, `memkit_tags`, `memkit_created_at` and
        `memkit_occurred_at` (ISO 8601, UTC), `memkit_score` (orders one result, in [0, 1]),
        `memkit_similarity` (absolute, in [0, 1], None when no vector was compared) and
        `memkit_missing`: the legs that did not answer in full, [] when nothing is degraded. Turns
        of a conversation also have `memkit_session_id` and `memkit_speaker`. Keys of the record that
        begin with `memkit_` are found under `memkit_metadata`. All of it is JSON.

    Attributes:
        memory: where to recall from; not part of dumps. Copies share it, unpickling reopens it.
        scope: one scope or several, read at once.
        k: the most documents.
        filters: conditions that every document satisfies, see `memkit_core.filters`.
        types: only records of these types; all when empty.
        include_messages: also the turns of conversations, of a user scope those of all sessions.
        ranking: weights; those of the memory's configuration when None.
    """

    # BaseRetriever takes unknown names without a word, and with them a misspelt scope.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: Memory = Field(exclude=True, repr=False)
    scope: InstanceOf[Scope] | Sequence[InstanceOf[Scope]] | None = None
    k: int = Field(default=5, ge=1)
    # What `parse_filter` takes; checked by it, since pydantic would rebuild the parsed form.
    filters: Any = None
    types: Sequence[RecordType | str] = ()
    include_messages: bool = True
    ranking: InstanceOf[Ranking] | None = None

    def __init__(self, **fields: Any) -> None:
        """Check and keep the fields.

        Raises:
            ScopeError: `scope` is neither a `Scope`, nor a list of them, nor None.
            FilterError: `filters` cannot be evaluated.
            ValidationError: another field is unknown, missing or of the wrong type.
        """
        _check_scope(fields.get("scope"))
        if fields.get("filters") is not None:
            # Kept in parsed form, so that later changes of the caller's dict mean nothing.
            fields["filters"] = parse_filter(fields["filters"])
        super().__init__(**fields)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - the signature is LangChain's
        k: int | None = None,
        **unknown: object,
    ) -> list[Document]:
        return self._recalled(query, k, unknown)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - the signature is LangChain's
        k: int | None = None,
        **unknown: object,
    ) -> list[Document]:
        return await run_in_executor(None, self._recalled, query, k, unknown)

    def _recalled(self, query: str, k: int | None, unknown: dict[str, object]) -> list[Document]:
        if unknown:
            raise InvalidInputError(
                f"MemkitRetriever.invoke takes k= and no {', '.join(sorted(unknown))}; give scope, filters and "
                "the rest when it is built, or per call through configurable_fields"
            )
        if self.scope is None:
            raise ScopeError(
                "MemkitRetriever: scope is required: build it with scope=Scope.user('alice'), or name it per "
                "call as config={'configurable': {'scope': ...}} (see configurable_fields)"
            )
        result = self.memory.recall(
            query,
            scope=self.scope,
            top_k=self.k if k is None else k,
            filters=self.filters,
            types=self.types,
            include_messages=self.include_messages,
            ranking=self.ranking,
        )
        # Documents say so too, but an empty answer has none that could.
        warn_degraded(_LOGGER, "retriever", result.missing)
        return to_documents(result)


def _check_scope(given: object) -> None:
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        scopes = list(given)
    else:
        scopes = [] if given is None else [given]
    for scope in scopes:
        if not isinstance(scope, Scope):
            raise ScopeError(
                "MemkitRetriever: scope must be a Scope such as Scope.user('alice') or a list of them, got "
                f"{shown(scope)}"
            )
