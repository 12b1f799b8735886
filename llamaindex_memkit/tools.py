"""The verbs of a working memory as LlamaIndex tools."""

from __future__ import annotations

from llama_index.core.tools import FunctionTool

from memkit_core import InvalidInputError, Scope
from memkit_core.conversation.working import WorkingMemory
from memkit_core.errors import shown


def working_memory_tools(working: WorkingMemory, *, scope: Scope) -> list[FunctionTool]:
    """`get_working_memory`, `update_working_memory` and `clear_working_memory` for an agent.

    Each works with `call` and, in a worker thread, with `acall`. Give the same `working` to
    `MemkitMemory`, which then tells the model in each prompt how to keep the note, and shows it whole.

    Args:
        working: `memory.working`, or one of its shapes: `memory.working.using(schema=Profile)`.
        scope: the session or user whose note it is.

    Raises:
        ScopeError: `scope` is neither a session nor a user.
        InvalidInputError: `working` is no `WorkingMemory`.
    """
    if not isinstance(working, WorkingMemory):
        raise InvalidInputError(f"working must be memory.working or a shape of it, got {shown(working)}")
    return [FunctionTool.from_defaults(function) for function in working.tools(scope=scope)]
