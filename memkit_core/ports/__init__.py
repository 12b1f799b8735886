"""The ports: what a store, an index and a model must do for memkit. Each docstring is a contract.

All implementations are safe to use from several threads. Every read and delete takes whose rows it
means first, and applies it, and any filter, before it cuts to a limit. Errors are those of
`memkit_core.errors`; a driver's own exception never leaves an implementation.
"""

from memkit_core.ports.index import INDEXED_FIELDS, IndexHit, IndexPoint, VectorIndex
from memkit_core.ports.jobs import LONGEST_LEASE, JobState, JobTable
from memkit_core.ports.keywords import KeywordHit, KeywordIndex
from memkit_core.ports.log import MessageLog
from memkit_core.ports.models import (
    ChatModel,
    Chunk,
    Chunker,
    Embedder,
    Extracted,
    Extractor,
    Judge,
    Judgement,
    Level,
    Reranker,
    Summarizer,
    TokenCounter,
    Verdict,
    WordEmbedder,
)
from memkit_core.ports.moving import (
    Copyable,
    MovedMessage,
    MovedRecord,
    MovedRow,
    MovedSession,
    MovedValue,
    Outcome,
    Portable,
    Received,
    RowKind,
    Selection,
    StoreSnapshot,
    Tombstone,
)
from memkit_core.ports.outbox import Outbox, OutboxEntry, OutboxState, Pending
from memkit_core.ports.partitions import (
    PartitionChanges,
    PartitionMark,
    PartitionRow,
    PartitionTable,
    Postings,
)
from memkit_core.ports.recalls import LoggedHit, LoggedRecall, RecallTable
from memkit_core.ports.records import ListQuery, RecordTable
from memkit_core.ports.rows import CANDIDATE_TEXT, Access, Candidate, RecordCount, Standing
from memkit_core.ports.rules import Add, MemoryView, Remove, Rewrite, Step
from memkit_core.ports.spaces import SpaceTable, Unembedded, VectorSource, VectorTable
from memkit_core.ports.stores import Logged, Problem, RecordStore
from memkit_core.ports.values import ValueTable
from memkit_core.ports.vectors import Matrix, Vector, VectorSpace

__all__ = [
    "CANDIDATE_TEXT",
    "INDEXED_FIELDS",
    "LONGEST_LEASE",
    "Access",
    "Add",
    "Candidate",
    "ChatModel",
    "Chunk",
    "Chunker",
    "Copyable",
    "Embedder",
    "Extracted",
    "Extractor",
    "IndexHit",
    "IndexPoint",
    "JobState",
    "JobTable",
    "Judge",
    "Judgement",
    "KeywordHit",
    "KeywordIndex",
    "Level",
    "ListQuery",
    "Logged",
    "LoggedHit",
    "LoggedRecall",
    "Matrix",
    "MemoryView",
    "MessageLog",
    "MovedMessage",
    "MovedRecord",
    "MovedRow",
    "MovedSession",
    "MovedValue",
    "Outbox",
    "OutboxEntry",
    "OutboxState",
    "Outcome",
    "PartitionChanges",
    "PartitionMark",
    "PartitionRow",
    "PartitionTable",
    "Pending",
    "Portable",
    "Postings",
    "Problem",
    "RecallTable",
    "Received",
    "RecordCount",
    "RecordStore",
    "RecordTable",
    "Remove",
    "Reranker",
    "Rewrite",
    "RowKind",
    "Selection",
    "SpaceTable",
    "Standing",
    "Step",
    "StoreSnapshot",
    "Summarizer",
    "TokenCounter",
    "Tombstone",
    "Unembedded",
    "ValueTable",
    "Vector",
    "VectorIndex",
    "VectorSource",
    "VectorSpace",
    "VectorTable",
    "Verdict",
    "WordEmbedder",
]
