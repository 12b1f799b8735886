"""The verbs of a working memory as functions that a model can call.

Without `from __future__ import annotations`: LlamaIndex reads the annotations as they stand, where a
text would be no type.
"""

from collections.abc import Callable
from typing import Literal

from memkit_core.errors import InvalidInputError
from memkit_core.models import Note

Mode = Literal["append", "replace"]


def note_tools(
    *,
    get: Callable[[], Note],
    update: Callable[[object, Mode], Note],
    clear: Callable[[], Note],
    as_json: bool,
) -> list[Callable[..., str]]:
    """`get_working_memory`, `update_working_memory` and `clear_working_memory`; see `WorkingMemory.tools`."""

    def save(content: object, mode: Mode) -> str:
        try:
            note = update(content, mode)
        except InvalidInputError as error:
            return f"Not saved: {error}"
        return f"Saved. The note is now:\n{note.text}"

    def get_working_memory() -> str:
        """Read the note that you keep as working memory."""
        return get().text or "The note is empty."

    def update_working_memory(content: str, mode: Mode = "append") -> str:
        """Add to the note that you keep as working memory.

        Args:
            content: What is new or changed.
            mode: "append" keeps what the note says. "replace" throws the whole note away first.
        """
        return save(content, mode)

    def update_with_json(content: dict[str, object], mode: Mode = "append") -> str:
        return save(content, mode)

    for attribute in ("__name__", "__qualname__", "__doc__"):
        setattr(update_with_json, attribute, getattr(update_working_memory, attribute))

    def clear_working_memory() -> str:
        """Empty the note that you keep as working memory: you will no longer see what it says."""
        clear()
        return "The note is empty now."

    return [
        get_working_memory,
        update_with_json if as_json else update_working_memory,
        clear_working_memory,
    ]
