"""memkit: long-term memory for LLM applications. Scoped, durable, searchable.

from memkit_core import Memory, Scope

with Memory.open("memory.db") as memory:
    alice = Scope.user("alice")
    memory.add("I moved to Denver in May and I am vegetarian.", scope=alice)
    for hit in memory.recall("where does she live?", scope=alice, top_k=5):
        print(hit.score, hit.record.content)
"""

import importlib
from typing import TYPE_CHECKING

from memkit_core.config import Config, QdrantServer
from memkit_core.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    ClosedError,
    CompactionError,
    ConfigError,
    ConflictError,
    DimensionMismatchError,
    FilterError,
    ImportFileError,
    InvalidInputError,
    InvalidPromotionError,
    InvalidTransitionError,
    LeaseLostError,
    MemkitError,
    MissingDependencyError,
    ModelError,
    RecordNotFoundError,
    SchemaError,
    ScopeError,
)
from memkit_core.filters import Condition, Filter, metadata_key, parse_filter
from memkit_core.inputs import NewMemory
from memkit_core.memory import Capabilities, Memory
from memkit_core.models import (
    ChangeKind,
    DeleteReceipt,
    MemoryRecord,
    Message,
    Note,
    Origin,
    RecallResult,
    RecordChange,
    RecordPage,
    RecordType,
    Role,
    RunState,
    ScoredRecord,
    Session,
    Signals,
    Status,
    Summary,
    ToolCall,
)
from memkit_core.observing import Counters
from memkit_core.recall.weights import Ranking
from memkit_core.scope import Scope, ScopeKind
from memkit_core.settings import ForgetPolicy, Forgetting, RecallLog, Schedule, Tracing

if TYPE_CHECKING:
    from memkit_core.aio import AsyncMemory
    from memkit_core.chunking import ContentChunker
    from memkit_core.conversation.buffer import MessageBuffer
    from memkit_core.conversation.lane import QueueState
    from memkit_core.conversation.queue import PersistQueue
    from memkit_core.conversation.summarizers import ChatSummarizer, ExtractiveSummarizer
    from memkit_core.conversation.tokens import resolve_token_counter
    from memkit_core.documents import Documents, NewDocument, SearchMode
    from memkit_core.formation import (
        Budget,
        ChatExtractor,
        ChatJudge,
        ConsolidationReport,
        Decision,
        FormationReport,
        RuleExtractor,
        RuleJudge,
    )
    from memkit_core.items import Item, ItemPage, Items, NewItem, value_key
    from memkit_core.ports import Extracted, Judgement, Verdict
    from memkit_core.text.redaction import SecretRedactor
    from memkit_core.typed import Episode, Profile, Skill

__version__ = "0.1.0"

__all__ = [
    "AsyncMemory",
    "BackendError",
    "BackendTimeoutError",
    "BackendUnavailableError",
    "Budget",
    "Capabilities",
    "ChangeKind",
    "ChatExtractor",
    "ChatJudge",
    "ChatSummarizer",
    "ClosedError",
    "CompactionError",
    "Condition",
    "Config",
    "ConfigError",
    "ConflictError",
    "ConsolidationReport",
    "ContentChunker",
    "Counters",
    "Decision",
    "DeleteReceipt",
    "DimensionMismatchError",
    "Documents",
    "Episode",
    "Extracted",
    "ExtractiveSummarizer",
    "Filter",
    "FilterError",
    "ForgetPolicy",
    "Forgetting",
    "FormationReport",
    "ImportFileError",
    "InvalidInputError",
    "InvalidPromotionError",
    "InvalidTransitionError",
    "Item",
    "ItemPage",
    "Items",
    "Judgement",
    "LeaseLostError",
    "MemkitError",
    "Memory",
    "MemoryRecord",
    "Message",
    "MessageBuffer",
    "MissingDependencyError",
    "ModelError",
    "NewDocument",
    "NewItem",
    "NewMemory",
    "Note",
    "Origin",
    "PersistQueue",
    "Profile",
    "QdrantServer",
    "QueueState",
    "Ranking",
    "RecallLog",
    "RecallResult",
    "RecordChange",
    "RecordNotFoundError",
    "RecordPage",
    "RecordType",
    "Role",
    "RuleExtractor",
    "RuleJudge",
    "RunState",
    "Schedule",
    "SchemaError",
    "Scope",
    "ScopeError",
    "ScopeKind",
    "ScoredRecord",
    "SearchMode",
    "SecretRedactor",
    "Session",
    "Signals",
    "Skill",
    "Status",
    "Summary",
    "ToolCall",
    "Tracing",
    "Verdict",
    "metadata_key",
    "parse_filter",
    "resolve_token_counter",
    "value_key",
]


_LAZY = {
    "ContentChunker": "memkit_core.chunking",
    "Budget": "memkit_core.formation",
    "ChatExtractor": "memkit_core.formation",
    "Extracted": "memkit_core.ports",
    "FormationReport": "memkit_core.formation",
    "RuleExtractor": "memkit_core.formation",
    "ChatJudge": "memkit_core.formation",
    "ConsolidationReport": "memkit_core.formation",
    "Decision": "memkit_core.formation",
    "Judgement": "memkit_core.ports",
    "RuleJudge": "memkit_core.formation",
    "Verdict": "memkit_core.ports",
    "AsyncMemory": "memkit_core.aio",
    "ChatSummarizer": "memkit_core.conversation.summarizers",
    "ExtractiveSummarizer": "memkit_core.conversation.summarizers",
    "resolve_token_counter": "memkit_core.conversation.tokens",
    "Documents": "memkit_core.documents",
    "MessageBuffer": "memkit_core.conversation.buffer",
    "PersistQueue": "memkit_core.conversation.queue",
    "QueueState": "memkit_core.conversation.lane",
    "Item": "memkit_core.items",
    "ItemPage": "memkit_core.items",
    "Items": "memkit_core.items",
    "NewItem": "memkit_core.items",
    "value_key": "memkit_core.items",
    "NewDocument": "memkit_core.documents",
    "SearchMode": "memkit_core.documents",
    "Episode": "memkit_core.typed",
    "Profile": "memkit_core.typed",
    "SecretRedactor": "memkit_core.text.redaction",
    "Skill": "memkit_core.typed",
}


def __getattr__(name: str) -> object:
    """What most programs do not need at their start, on first use: it takes longer to import than the rest."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
