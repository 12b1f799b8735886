"""memkit: long-term memory for LLM applications. Scoped, durable, searchable.

from memkit_core import Memory, Scope

with Memory.open("memory.db") as memory:
    alice = Scope.user("alice")
    memory.add("I moved to Denver in May and I am vegetarian.", scope=alice)
    for hit in memory.recall("where does she live?", scope=alice, top_k=5):
        print(hit.score, hit.record.content)
"""

from typing import TYPE_CHECKING

from memkit_core.config import Config
from memkit_core.documents import Documents, NewDocument, SearchMode
from memkit_core.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    ClosedError,
    ConfigError,
    ConflictError,
    DimensionMismatchError,
    FilterError,
    InvalidInputError,
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
    Origin,
    RecallResult,
    RecordChange,
    RecordPage,
    RecordType,
    Role,
    ScoredRecord,
    Session,
    Signals,
    Status,
    ToolCall,
)
from memkit_core.recall.ranking import Ranking
from memkit_core.scope import Scope, ScopeKind

if TYPE_CHECKING:
    from memkit_core.aio import AsyncMemory

__version__ = "0.1.0"

__all__ = [
    "AsyncMemory",
    "BackendError",
    "BackendTimeoutError",
    "BackendUnavailableError",
    "Capabilities",
    "ChangeKind",
    "ClosedError",
    "Condition",
    "Config",
    "ConfigError",
    "ConflictError",
    "DeleteReceipt",
    "DimensionMismatchError",
    "Documents",
    "Filter",
    "FilterError",
    "InvalidInputError",
    "MemkitError",
    "Memory",
    "MemoryRecord",
    "Message",
    "MissingDependencyError",
    "ModelError",
    "NewDocument",
    "NewMemory",
    "Origin",
    "Ranking",
    "RecallResult",
    "RecordChange",
    "RecordNotFoundError",
    "RecordPage",
    "RecordType",
    "Role",
    "SchemaError",
    "Scope",
    "ScopeError",
    "ScopeKind",
    "ScoredRecord",
    "SearchMode",
    "Session",
    "Signals",
    "Status",
    "ToolCall",
    "metadata_key",
    "parse_filter",
]


def __getattr__(name: str) -> object:
    """`AsyncMemory`, on first use: asyncio takes longer to import than all the rest."""
    if name == "AsyncMemory":
        from memkit_core.aio import AsyncMemory

        return AsyncMemory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
