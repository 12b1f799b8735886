"""The verbs of a working memory as LangChain tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langchain_core.tools import BaseTool, StructuredTool

from memkit_core import InvalidInputError, Scope
from memkit_core.conversation.working import WorkingMemory
from memkit_core.errors import shown


def working_memory_tools(working: WorkingMemory, *, scope: Scope) -> list[BaseTool]:
    """`get_working_memory`, `update_working_memory` and `clear_working_memory` for an agent.

    Each works with `invoke` and, in a worker thread, with `ainvoke`. Put
    `working.instructions(scope=...)` into the system prompt: it tells the model how to keep the note
    and shows it whole. `MemkitMiddleware(working=...)` does both.

    Args:
        working: `memory.working`, or one of its shapes: `memory.working.using(schema=Profile)`.
        scope: the session or user whose note it is.

    Raises:
        ScopeError: `scope` is neither a session nor a user.
        InvalidInputError: `working` is no `WorkingMemory`.
    """
    return tools_of(checked_working(working).tools(scope=scope))


def tools_of(functions: Sequence[Callable[..., str]]) -> list[BaseTool]:
    """The functions as tools, with the descriptions of their arguments."""
    return [StructuredTool.from_function(function, parse_docstring=True) for function in functions]


def checked_working(given: object) -> WorkingMemory:
    """`given` when it is a working memory."""
    if not isinstance(given, WorkingMemory):
        raise InvalidInputError(f"working must be memory.working or a shape of it, got {shown(given)}")
    return given
