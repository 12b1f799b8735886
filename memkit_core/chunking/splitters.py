"""semantic-text-splitter (https://github.com/benbrandt/text-splitter): where a text is best cut.

It cuts at the largest unit that fits: a section, a paragraph, a sentence, a word, a grapheme; code at
the nodes of its syntax tree (tree-sitter). Chunks of one call follow each other without a gap.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from memkit_core.chunking.boundaries import lead
from memkit_core.errors import InvalidInputError, MissingDependencyError, shown

if TYPE_CHECKING:
    from semantic_text_splitter import CodeSplitter, MarkdownSplitter, TextSplitter

    from memkit_core.ports import TokenCounter

_LONG_RUN, _NEAR = 16_384, 1024

Kind = Literal["text", "markdown", "code"]


class Span(NamedTuple):
    """A part of a text, in characters: from `start` up to but not including `end`."""

    start: int
    end: int


# The module of each grammar, and the function in it that gives the language.
_GRAMMARS = {
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "python": ("tree_sitter_python", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}

LANGUAGES = tuple(_GRAMMARS)
"""The programming languages whose functions and classes are known."""


def splitter_for(
    kind: Kind, *, language: str | None, count: TokenCounter | None
) -> Callable[[str, int], list[Span]]:
    """A function from a text and the size of a chunk to the spans that the text is cut into.

    Sizes are in characters, or in what `count` counts.

    Raises:
        InvalidInputError: no such language.
        MissingDependencyError: the splitter, or the grammar of the language, is not installed.
    """
    try:
        import semantic_text_splitter as library
    except ImportError as error:
        raise MissingDependencyError("semantic-text-splitter", extra="chunking") from error
    grammar = _grammar(language) if kind == "code" else None

    def splitter(capacity: int) -> TextSplitter | MarkdownSplitter | CodeSplitter:
        if grammar is not None:
            made = library.CodeSplitter
            if count is None:
                return made(grammar, capacity, trim=False)
            return made.from_callback(grammar, count, capacity, trim=False)
        plain = library.MarkdownSplitter if kind == "markdown" else library.TextSplitter
        return (
            plain(capacity, trim=False) if count is None else plain.from_callback(count, capacity, trim=False)
        )

    def split(text: str, capacity: int) -> list[Span]:
        cuts = [0, *_cuts_of_long_runs(text), len(text)]
        return [
            Span(first + start, first + start + len(piece))
            for first, last in pairwise(cuts)
            for start, piece in splitter(capacity).chunk_indices(text[first:last])
        ]

    return split


def _cuts_of_long_runs(text: str) -> Iterator[int]:
    """Where to cut what has neither a sentence nor a line for very long: a transcript, or encoded data.

    The splitter's time grows with the square of such a run: four seconds for 100,000 ideographs.
    """
    if len(text) <= _LONG_RUN:
        return
    last = 0
    for end in (*(found.end() for found in re.finditer(r"\n|[.!?]\s|[\u3002\uff01\uff1f]", text)), len(text)):
        while end - last > _LONG_RUN:
            last = lead(text, last + _LONG_RUN, min(last + _LONG_RUN + _NEAR, end), by_line=False)
            yield last
        last = end


def _grammar(language: str | None) -> object:
    if not isinstance(language, str) or language not in _GRAMMARS:
        raise InvalidInputError(
            f"code needs its language, one of {', '.join(LANGUAGES)}; got {shown(language)}"
        )
    module, function = _GRAMMARS[language]
    try:
        return getattr(importlib.import_module(module), function)()
    except ImportError as error:
        raise MissingDependencyError(module.replace("_", "-"), extra="chunking") from error
