"""Every default of memkit in one frozen object."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from memkit_core.errors import ConfigError, shown
from memkit_core.recall.weights import Ranking
from memkit_core.scope import id_problem
from memkit_core.settings import Forgetting, RecallLog, Schedule, Tracing

if TYPE_CHECKING:
    from memkit_core.ports import Extractor, Judge

MEBIBYTE = 1024 * 1024
_LARGEST = 2**53
_CHOICES = {
    "environment": ("development", "production"),
    "synchronous": ("NORMAL", "FULL"),
    "reembed": ("never", "background"),
}
_VALUES: dict[str, tuple[type, ...]] = {
    "ranking": (Ranking,),
    "forgetting": (Forgetting,),
    "upkeep": (Schedule, type(None)),
    "recall_log": (RecallLog, type(None)),
    "tracing": (Tracing, type(None)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QdrantServer:
    """A Qdrant server, or Qdrant Cloud, that holds the vectors; needs the extra `qdrant`.

    Attributes:
        url: with its scheme, such as `"https://qdrant.example.org:6333"`; `":memory:"` is an engine
            in this process, for tests.
        api_key: sent with every request; never in a repr, an error or a pickle.
        grpc: speak gRPC instead of HTTP.
        grpc_port: the server's port for gRPC.
        timeout: seconds that one call may take.
        prefix: what the names of memkit's collections begin with.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    grpc: bool = False
    grpc_port: int = 6334
    timeout: int = 10
    prefix: str = "memkit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of a `Memory`. Nothing is read from the environment here.

    Attributes:
        environment: `"production"` refuses a store that forgets when the process ends.
        agent_id: written into records that name no agent.
        max_content_chars: the longest content of one record or message text.
        max_note_chars: the longest working memory; it goes whole into every prompt.
        profile_max_tokens: the most tokens that the profile of a user takes of a prompt, see
            `Memory.turn_context`; 0 shows none.
        note_versions: how many earlier versions of a working memory are kept.
        max_batch: the most records or messages of one call.
        max_top_k: hard cap on `top_k`; more is an error, not a silent cut.
        candidates: rows each leg hands to ranking at least (three times `top_k` when that is more).
        ranking: the weights of recall.
        index: where the vectors are searched: `"edge"` is Qdrant embedded in the process, in a folder
            beside the file, or a `QdrantServer`.
        rerank_depth: hits that a reranker orders anew, at least (`top_k` when that is more).
        rerank_seconds: the longest a recall waits for its reranker; then the hits keep their order.
        recall_copy_bytes: about how much of the store recall keeps in memory, whole partitions (a user's
            memories, or turns) of up to half of it: 5,000 records of 256 dimensions take 13 MB and are
            recalled in a third of the time. 0 keeps none.
        embed_batch: texts of one embedding call at most (spec B1).
        embedding_cache: query and document vectors kept in memory; 0 keeps none.
        embedding_cache_seconds: how long they are kept.
        index_batch: points of one index write at most: the engine holds the GIL while it writes
            (20 ms for 500 points), so larger batches would stall other threads.
        outbox_attempts: tries of one outbox entry before it is kept aside and shown.
        outbox_seconds: the longest wait between two tries.
        index_messages: whether user and assistant text of conversations is made searchable; for one
            session alone see `Sessions.create`.
        queue_debounce: seconds after the last message or part for a session before what waits is written.
        queue_age: the longest that anything waits for that.
        queue_size: so many waiting messages of a session are written at once.
        queue_concurrency: sessions that are written at the same time, at most.
        queue_retries: further tries of a failed write, before it is shown as failed.
        disk_reserve: bytes that must stay free; below it the index is not written, since a full
            disk kills the process inside the engine.
        reembed: what opening a file with another model than its own does: `"never"` is an error that
            names both, `"background"` changes the model as `memory.upkeep.reembed` does while the memory
            is in use; the old model answers meanwhile if memkit can make it from its name, else words do.
        busy_timeout: seconds to wait for another process's write transaction.
        wal_checkpoint_bytes: size of SQLite's write-ahead log that makes a writer checkpoint it.
        summary_threshold: tokens of a conversation above which its older part is summarised.
        summary_keep: the newest messages that no summary takes in.
        summary_max_tokens: the most tokens of a summary.
        forgetting: what `memory.upkeep.forget` archives and deletes.
        upkeep: when the periodic work is done, and that a thread does it; None starts no thread.
        extractor: forms memories of what was said, such as `ChatExtractor(model)`: has idle sessions
            read as part of the periodic work, and is that of `memory.formation`. With None nothing is
            formed unless asked for.
        judge: compares memories, such as `ChatJudge(model)`, where none is given: in formation and
            `memory.upkeep.consolidate`; None for `RuleJudge()`. What is pickled has neither of the two,
            since a model may hold a key.
        recall_log: that each recall is kept with its scopes, hits and their signals, so that
            `memory.feedback` can say what was useful; None keeps nothing.
        tracing: that each call is an OpenTelemetry span, without content; needs the extra `otel`, and goes to the tracer
            provider that the application sets. None for no spans; `memory.counters` counts in any case.
        redact: applied to every text before it is embedded or stored: records, messages, documents,
            notes, summaries, imports, logged queries; `memkit_core.SecretRedactor()` or a function of your own from text
            to text, to which it must be a no-op to be applied again. None stores all as it is.
        synchronous: SQLite's setting. NORMAL survives a killed process; a power cut may lose the
            last commits. FULL survives both and costs about four times as much a commit.
    """

    environment: Literal["development", "production"] = "development"
    agent_id: str | None = None
    max_content_chars: int = 4 * MEBIBYTE
    max_note_chars: int = 20_000
    note_versions: int = 1000
    profile_max_tokens: int = 1000
    max_batch: int = 100_000
    max_top_k: int = 1000
    candidates: int = 100
    ranking: Ranking = field(default_factory=Ranking)
    index: Literal["edge"] | QdrantServer = "edge"
    rerank_depth: int = 30
    rerank_seconds: float = 2.0
    recall_copy_bytes: int = 64 * MEBIBYTE
    embed_batch: int = 100
    embedding_cache: int = 10_000
    embedding_cache_seconds: float = 3600.0
    index_batch: int = 250
    outbox_attempts: int = 5
    outbox_seconds: float = 30.0
    index_messages: bool = True
    queue_debounce: float = 0.2
    queue_age: float = 2.0
    queue_size: int = 50
    queue_concurrency: int = 10
    queue_retries: int = 5
    disk_reserve: int = 256 * MEBIBYTE
    reembed: Literal["never", "background"] = "never"
    busy_timeout: float = 5.0
    wal_checkpoint_bytes: int = 4 * MEBIBYTE
    summary_threshold: int = 170_000
    summary_keep: int = 6
    summary_max_tokens: int = 2_000
    forgetting: Forgetting = field(default_factory=Forgetting)
    upkeep: Schedule | None = None
    extractor: Extractor | None = None
    judge: Judge | None = None
    recall_log: RecallLog | None = None
    tracing: Tracing | None = None
    redact: Callable[[str], str] | None = None
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"

    def __post_init__(self) -> None:
        """Refuse settings that no memory could run with."""
        for name, kinds in _VALUES.items():
            if not isinstance(value := getattr(self, name), kinds):
                raise ConfigError(f"{name} must be a memkit_core.{kinds[0].__name__}, got {shown(value)}")
        self._check_kinds()
        for name, words in _CHOICES.items():
            if getattr(self, name) not in words:
                raise ConfigError(f"{name} must be {' or '.join(words)}, got {shown(getattr(self, name))}")
        if not isinstance(self.index, QdrantServer) and not (
            isinstance(self.index, str) and self.index == "edge"
        ):
            raise ConfigError(f"index must be 'edge' or a QdrantServer, got {shown(self.index)}")
        for name in (
            "max_content_chars", "max_note_chars", "note_versions", "max_batch", "max_top_k", "candidates", "embed_batch", "index_batch",
            "outbox_attempts", "busy_timeout", "outbox_seconds", "wal_checkpoint_bytes",
            "rerank_depth", "rerank_seconds", "summary_threshold", "summary_keep", "summary_max_tokens", "queue_size", "queue_concurrency",
        ):  # fmt: skip
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, got {getattr(self, name)!r}")
        for name in (
            "profile_max_tokens",
            "recall_copy_bytes",
            "queue_debounce",
            "queue_age",
            "queue_retries",
        ):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must not be below 0, got {getattr(self, name)!r}")

    def _check_kinds(self) -> None:
        """Refuse what is of another kind than the default, or no finite number."""
        if self.agent_id is not None and (problem := id_problem(self.agent_id)):
            raise ConfigError(f"agent_id {problem}")
        self._check_functions()
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            if isinstance(one.default, str) and one.name != "index" and not isinstance(value, str):
                raise ConfigError(f"{one.name} must be a text, got {shown(value)}")
            if isinstance(one.default, bool):
                if not isinstance(value, bool):
                    raise ConfigError(f"{one.name} must be True or False, got {shown(value)}")
                continue
            if not isinstance(one.default, int | float):
                continue
            kinds = (int, float) if isinstance(one.default, float) else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds) or not abs(value) <= _LARGEST:
                raise ConfigError(f"{one.name} must be a number like {one.default!r}, got {shown(value)}")

    def _check_functions(self) -> None:
        """Refuse what cannot be called as what it is given for."""
        if self.redact is not None and not _is_function(self.redact):
            raise ConfigError(
                f"redact must be a function from text to text or None, got {shown(self.redact)}"
            )
        for name in ("extractor", "judge"):
            given = getattr(self, name)
            if given is not None and not _is_function(given):
                raise ConfigError(
                    f"{name} must be a function or None, got {shown(given)}; give a chat model as "
                    f"Chat{name.title()}(model)"
                )

    def without_secrets(self) -> Config:
        """The same settings without keys, as they may be kept or pickled."""
        kept = dataclasses.replace(self, extractor=None, judge=None)
        if isinstance(self.index, QdrantServer) and self.index.api_key is not None:
            return dataclasses.replace(kept, index=dataclasses.replace(self.index, api_key=None))
        return kept


def _is_function(given: object) -> bool:
    # A chat model may be callable, but takes no messages of memkit.
    return callable(given) and not isinstance(given, type) and not hasattr(given, "invoke")
