"""The memories of a scope, and a working memory, as LlamaIndex tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index.core.tools import FunctionTool

from memkit_core import InvalidInputError, Memory, RecordType, Scope
from memkit_core import tools as core
from memkit_core.conversation.working import WorkingMemory
from memkit_core.errors import shown


def memory_tools(
    memory: Memory,
    *,
    scope: Scope,
    search: Scope | Sequence[Scope] | None = None,
    types: Iterable[RecordType | str] = (),
    actions_permitted: Iterable[str] = core.ACTIONS,
    instructions: str = core.INSTRUCTIONS,
) -> list[FunctionTool]:
    """`manage_memory` and `search_memory`, for an agent that keeps memories itself.

    See `memkit_core.tools.memory_tools` for the arguments and for what they answer. Each works with
    `call` and, in a worker thread, with `acall`.

    Raises:
        ScopeError: a scope that is none.
        InvalidInputError: no action, an unknown one, or another argument that cannot be.
    """
    functions = core.memory_tools(
        memory, scope=scope, search=search, types=types,
        actions_permitted=actions_permitted, instructions=instructions,
    )  # fmt: skip
    # Without the signature, which LlamaIndex writes before the description that it reads off a function.
    return [FunctionTool.from_defaults(one, description=one.__doc__) for one in functions]


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
