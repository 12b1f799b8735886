"""The headings that a place of a Markdown text stands under, found by markdown-it-py."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable
from typing import NamedTuple

from memkit_core.errors import MissingDependencyError

SEPARATOR = " > "
"""Stands between the headings of a path, the outermost first."""


class _Heading(NamedTuple):
    start: int
    depth: int
    title: str


def heading_paths(text: str) -> Callable[[int], str]:
    """A function from a place in `text` to the headings above it: `Guide > Install > Linux`, or "".

    A heading that stands at the place itself is not above it: the text there shows it.

    Raises:
        MissingDependencyError: markdown-it-py is not installed.
    """
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingDependencyError("markdown-it-py", extra="chunking") from error
    # Lines as the parser counts them.
    lines = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]
    tokens = MarkdownIt("commonmark").parse(text)
    headings = [
        _Heading(lines[token.map[0]], int(token.tag[1:]), " ".join(tokens[number + 1].content.split()))
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and token.map is not None
    ]
    starts = [heading.start for heading in headings]
    # The open headings after each of them, outermost first.
    opened: list[tuple[_Heading, ...]] = [()]
    for heading in headings:
        above = tuple(one for one in opened[-1] if one.depth < heading.depth)
        opened.append((*above, heading))

    def path(place: int) -> str:
        count = bisect.bisect_left(starts, place)
        here = headings[count] if count < len(headings) and headings[count].start == place else None
        return SEPARATOR.join(
            heading.title
            for heading in opened[count]
            if heading.title and (here is None or heading.depth < here.depth)
        )

    return path
