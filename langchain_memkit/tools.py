"""The memories of a scope, and a working memory, as LangChain tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import ValidationError
from pydantic.v1 import ValidationError as OldValidationError

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
) -> list[BaseTool]:
    """`manage_memory` and `search_memory`, for an agent that keeps memories itself.

    See `memkit_core.tools.memory_tools` for the arguments and for what they answer. Each works with
    `invoke` and, in a worker thread, with `ainvoke`; arguments of the wrong kind are answered with a text.

    Raises:
        ScopeError: a scope that is none.
        InvalidInputError: no action, an unknown one, or another argument that cannot be.
    """
    functions = core.memory_tools(
        memory, scope=scope, search=search, types=types,
        actions_permitted=actions_permitted, instructions=instructions,
    )  # fmt: skip
    return [StructuredTool.from_function(one, handle_validation_error=_told) for one in functions]


def _told(error: ValidationError | OldValidationError) -> str:
    """What is wrong with the arguments, for the model that gave them."""
    wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return f"Not done: {'; '.join(wrong)}"


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
