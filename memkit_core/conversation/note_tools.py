"""The verbs of a working memory as functions that a model can call.

Without `from __future__ import annotations`: LlamaIndex reads the annotations as they stand, where a
text would be no type.
"""

from collections.abc import Callable
from typing import Annotated, Literal

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

    def clear_working_memory() -> str:
        """Empty the note that you keep as working memory: you will no longer see what it says."""
        clear()
        return "The note is empty now."

    return [
        get_working_memory,
        _with_json(save, like=update_working_memory) if as_json else update_working_memory,
        clear_working_memory,
    ]


def _with_json(
    save: Callable[[object, Mode], str], *, like: Callable[[str, Mode], str]
) -> Callable[..., str]:
    """The tool that takes an object, by its schema: from models that write it as text it takes that too."""
    # Here, so that a note of text does not wait for pydantic to be imported.
    from pydantic import PlainSerializer, WrapValidator

    text_too = WrapValidator(lambda given, checked: given if isinstance(given, str) else checked(given))
    as_given = PlainSerializer(lambda given: given)

    def update_with_json(
        content: Annotated[dict[str, object], text_too, as_given], mode: Mode = "append"
    ) -> str:
        return save(content, mode)

    for attribute in ("__name__", "__qualname__", "__doc__"):
        setattr(update_with_json, attribute, getattr(like, attribute))
    return update_with_json
