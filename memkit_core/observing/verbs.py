"""Which verbs are observed, and what OpenTelemetry calls them.

The operations are those of the semantic conventions for generative AI
(https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md, in development), which
have `upsert_memory` for what may create, update or merge "without the caller choosing which". What they have no
name for is `memkit.<verb>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_UPSERT, _UPDATE, _DELETE = "upsert_memory", "update_memory", "delete_memory"
SEARCH, RETRIEVAL = "search_memory", "retrieval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb of a part.

    Attributes:
        name: with its part in front, such as `sessions.append`.
        operation: `gen_ai.operation.name`, None where the conventions have none.
        writes, recalls: what it counts as.
        asks: whether it may call a model.
        of_query: whether it is called with a `RecallQuery`.
    """

    name: str
    operation: str | None = None
    writes: bool = False
    recalls: bool = False
    asks: bool = True
    of_query: bool = False

    @property
    def names_a_record(self) -> bool:
        """Whether its `id` is that of one memory."""
        return self.operation in (_UPDATE, _DELETE) or self.name == "promote"


_LEFT_TO_THE_THREAD = {"sessions.append"}
"""Writes on the path of every turn that call no model: what they wrote is embedded by the thread of the memory."""


def _verbs(
    part: str,
    *,
    writes: Mapping[str, str | None] | Iterable[str] = (),
    calls: Mapping[str, str | None] | Iterable[str] = (),
    reads: Iterable[str] = (),
) -> dict[str, Verb]:
    """The verbs of a part by their names in it; those with an operation of the conventions as a mapping."""
    lead = f"{part}." if part else ""
    named = {
        one: Verb(name=lead + one, operation=op, writes=True, asks=lead + one not in _LEFT_TO_THE_THREAD)
        for one, op in _pairs(writes)
    }
    named |= {one: Verb(name=lead + one, operation=op) for one, op in _pairs(calls)}
    return named | {one: Verb(name=lead + one, asks=False) for one in reads}


def _pairs(names: Mapping[str, str | None] | Iterable[str]) -> list[tuple[str, str | None]]:
    return [*names.items()] if isinstance(names, Mapping) else [(name, None) for name in names]


OF_MEMORY = _verbs(
    "",
    writes={
        "add": _UPSERT,
        "add_many": _UPSERT,
        "update": _UPDATE,
        "confirm": _UPDATE,
        "reject": _UPDATE,
        "archive": _UPDATE,
        "restore": _UPDATE,
        "supersede": _UPDATE,
        "undo": _UPDATE,
        "promote": _UPSERT,
        "compact": _UPSERT,
        "delete": _DELETE,
        "feedback": None,
    },
    calls=("turn_context", "flush"),
    reads=("get", "history", "list_records"),
) | {
    "recall": Verb(name="recall", operation=SEARCH, recalls=True),
    "_recall_of_turn": Verb(name="recall", operation=SEARCH, recalls=True, of_query=True),
}
OF_SESSIONS = _verbs(
    "sessions",
    writes=("append", "replace", "create", "update", "generate_title", "delete", "clear"),
    calls=("relevant_window",),
    reads=("read", "for_model", "window", "get", "list"),
) | {"_write_queued": Verb(name="sessions.queue", writes=True, asks=False)}
OF_SUMMARIES = _verbs("summaries", writes=("update", "clear"), reads=("get", "context"))
OF_WORKING = _verbs("working", writes=("update", "clear", "undo"), reads=("get", "history", "instructions"))
OF_RUNS = _verbs("runs", writes=("save", "delete"), reads=("load", "list"))
OF_FORMATION = _verbs(
    "formation", writes=("run", "run_due", "set_budget"), reads=("due", "set_aside", "budget")
)
OF_DOCUMENTS = _verbs(
    "documents",
    writes=("put", "add_document", "delete", "clear"),
    calls={"search": RETRIEVAL},
    reads=("get", "chunks", "vectors", "list"),
)
OF_ITEMS = _verbs(
    "items",
    writes=("put", "delete", "clear"),
    calls={"search": RETRIEVAL},
    reads=("get", "namespaces"),
)
OF_TRANSFER = _verbs("transfer", writes=("import_jsonl",), calls=("export_jsonl", "backup"))
OF_UPKEEP = _verbs(
    "upkeep",
    writes=("repair", "sweep", "forget", "purge", "consolidate", "reembed"),
    calls=("verify", "reindex", "doctor", "run_due"),
    reads=("stats", "recall_log", "jobs", "indexed"),
)
