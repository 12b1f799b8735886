"""The values memkit stores and returns. All of them are frozen; times are aware UTC."""

from memkit_core.models.conversation import Message, Role, Session, Summary, ToolCall
from memkit_core.models.records import (
    ChangeKind,
    DeleteReceipt,
    MemoryRecord,
    Origin,
    RecordChange,
    RecordPage,
    RecordPatch,
    RecordType,
    Status,
)
from memkit_core.models.results import Explanation, RecallResult, ScoredRecord, Signals
from memkit_core.models.spaces import (
    CHUNK,
    DOCUMENTS,
    MEMORIES,
    MESSAGES,
    NOTES,
    RUNS,
    SEARCHABLE,
    STORE,
    Target,
    point_id,
)
from memkit_core.models.values import Note, NoteFormat, RunState, StoredValue

__all__ = [
    "CHUNK",
    "DOCUMENTS",
    "MEMORIES",
    "MESSAGES",
    "NOTES",
    "RUNS",
    "SEARCHABLE",
    "STORE",
    "ChangeKind",
    "DeleteReceipt",
    "Explanation",
    "MemoryRecord",
    "Message",
    "Note",
    "NoteFormat",
    "Origin",
    "RecallResult",
    "RecordChange",
    "RecordPage",
    "RecordPatch",
    "RecordType",
    "Role",
    "RunState",
    "ScoredRecord",
    "Session",
    "Signals",
    "Status",
    "StoredValue",
    "Summary",
    "Target",
    "ToolCall",
    "point_id",
]
