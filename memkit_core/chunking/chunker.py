"""`ContentChunker`: from a text to chunks, by what kind of text it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from memkit_core.chunking.boundaries import lead, line_of, trimmed
from memkit_core.chunking.headings import heading_paths
from memkit_core.chunking.splitters import Kind, Span, splitter_for
from memkit_core.conversation.tokens import resolve_token_counter
from memkit_core.errors import InvalidInputError, shown
from memkit_core.inputs import checked_count, checked_enum, listed
from memkit_core.ports import Chunk, Level
from memkit_core.text.clean import storable


class ContentType(StrEnum):
    """What a text is, which decides where it is cut."""

    DOCUMENTATION = "documentation"
    """Markdown: at headings, then at blocks. Each chunk knows the headings it stands under."""
    CODE = "code"
    """At classes and functions."""
    CONVERSATION = "conversation"
    """Plain text with a turn a line: at lines, then at sentences."""
    ARTICLE = "article"
    """Plain text: at paragraphs, then at sentences."""


SIZES: Final[Mapping[ContentType, int]] = MappingProxyType(
    {
        ContentType.DOCUMENTATION: 512,
        ContentType.CODE: 1000,
        ContentType.CONVERSATION: 256,
        ContentType.ARTICLE: 768,
    }
)
"""The longest chunk of each type, in characters.

First sizes by common practice, from memkit's specification (B7) and not from a measurement; which is
best for your texts `memkit eval --chunk-sizes` measures.
"""
HIERARCHY: Final = (256, 512, 1024)
"""Sizes to cut side by side, by the same source: small ones to be precise, large ones to tell the whole."""

_MOST = 1_000_000
_LARGEST_OVERLAP = 0.5
_KINDS: Mapping[ContentType, Kind] = {ContentType.DOCUMENTATION: "markdown", ContentType.CODE: "code"}
_LEVELS: Mapping[int, tuple[Level, ...]] = {
    1: (Level.MEDIUM,),
    2: (Level.SMALL, Level.LARGE),
    3: (Level.SMALL, Level.MEDIUM, Level.LARGE),
}


@dataclass(frozen=True, slots=True)
class _Cut:
    """A chunk in the making: `core` is its own, `start` where it begins with what overlaps the one before."""

    core: Span
    start: int
    parent: int | None


class ContentChunker:
    """A `Chunker` by the type of the content. Thread-safe; cuts about a megabyte a second.

    The chunks of a level together hold all of the text but white space between them, each in at most
    `sizes` characters or tokens. With several sizes the smaller chunks are cut out of the larger ones,
    so that each lies in its parent whole. Sizes and places count in the text with NUL and lone
    surrogates replaced, as it is stored.
    """

    def __init__(
        self,
        content_type: ContentType | str = ContentType.ARTICLE,
        *,
        sizes: int | Sequence[int] | None = None,
        overlap: float = 0.15,
        count: object = None,
        language: str | None = None,
    ) -> None:
        """Nothing is cut yet.

        Args:
            content_type: what the texts are.
            sizes: the longest chunk, or up to three of them for a hierarchy, such as `HIERARCHY`; None
                for that of `SIZES`.
            overlap: how much of a chunk repeats the end of the one before, at most, as a share of its
                size: 0.1 to 0.2 are usual, 0 is none, 0.5 the most. It begins at a word, in code at a
                line.
            count: what counts tokens, if sizes are in tokens: a function from text to tokens or a chat
                model, as in `resolve_token_counter`. None for characters.
            language: of code, one of `memkit_core.chunking.splitters.LANGUAGES`.

        Raises:
            InvalidInputError: an unknown type or language, or sizes or an overlap out of range.
            MissingDependencyError: the extra `chunking` is not installed.
        """
        self.content_type = checked_enum(ContentType, content_type, "content_type")
        self.sizes = _checked_sizes(SIZES[self.content_type] if sizes is None else sizes)
        self.overlap = _checked_overlap(overlap)
        if language is not None and self.content_type is not ContentType.CODE:
            raise InvalidInputError(
                f"language={shown(language)} is for content_type 'code', not {self.content_type.value!r}"
            )
        counter = None if count is None else resolve_token_counter(count)
        self._measure: Callable[[str], int] = counter or len
        self._characters = counter is None
        self._split = splitter_for(_KINDS.get(self.content_type, "text"), language=language, count=counter)

    def __call__(self, text: str) -> list[Chunk]:
        """The chunks of `text`: the smallest first, those of a level in its order; none of a blank text.

        Raises:
            InvalidInputError: `text` is no string, or `count` gave no number of tokens.
        """
        if not isinstance(text, str):
            raise InvalidInputError(f"a chunker takes a text, got {shown(text)}")
        text = storable(text)
        levels = self._levels(text)
        context = heading_paths(text) if self.content_type is ContentType.DOCUMENTATION else None
        # Parents come after their children: theirs are the next larger size.
        offsets = [sum(len(level) for level in levels[: n + 1]) for n in range(len(levels))]
        chunks = []
        for name, cuts, offset in zip(_LEVELS[len(levels)], levels, offsets, strict=True):
            for cut in cuts:
                start, end = trimmed(text, cut.start, cut.core.end)
                chunks.append(
                    Chunk(
                        content=text[start:end],
                        start=start,
                        end=end,
                        context="" if context is None else context(max(start, cut.core.start)),
                        level=name,
                        parent=None if cut.parent is None else offset + cut.parent,
                    )
                )
        return chunks

    def _levels(self, text: str) -> list[list[_Cut]]:
        """The cuts of each size, the smallest first."""
        levels: list[list[_Cut]] = []
        within: Sequence[_Cut] = [_Cut(Span(0, len(text)), 0, None)]
        for size in reversed(self.sizes):
            within = list(self._cuts(text, size, within, outermost=not levels))
            levels.insert(0, list(within))
        return levels

    def _cuts(self, text: str, size: int, within: Sequence[_Cut], *, outermost: bool) -> Iterator[_Cut]:
        """What `within` is cut into, each with the end of what stands before it there."""
        repeated = int(size * self.overlap)
        for number, outer in enumerate(within):
            for core in self._cores(text, size - repeated, outer.core):
                yield _Cut(
                    core=core,
                    start=self._lead(text, outer.start, core.start, repeated),
                    parent=None if outermost else number,
                )

    def _cores(self, text: str, capacity: int, whole: Span) -> list[Span]:
        """`whole` in parts of at most `capacity` that have text, and no gap but white space."""
        found = self._split(text[whole.start : whole.end], capacity)
        cores = [Span(whole.start + one.start, whole.start + one.end) for one in found]
        for number in range(1, len(cores)):
            # The splitter leaves the indentation of a line to the part before.
            indented = Span(line_of(text, cores[number - 1].start, cores[number].start), cores[number].end)
            if self._length(text, indented) <= capacity:
                cores[number - 1 : number + 1] = [Span(cores[number - 1].start, indented.start), indented]
        # It also leaves crumbs, such as the first line of a class, which leads what follows.
        joined = self._joined(text, cores, capacity, leading=True)
        joined = self._joined(text, joined, capacity, leading=False)
        return [core for core in joined if not text[core.start : core.end].isspace()]

    def _joined(self, text: str, cores: Sequence[Span], capacity: int, *, leading: bool) -> list[Span]:
        """The parts, with each crumb part of the next one, or of the one before, if that is not too long."""
        crumb = max(1, capacity // 10)
        joined: list[Span] = []
        for core in cores:
            both = Span(joined[-1].start, core.end) if joined else core
            small = joined[-1] if joined and leading else core
            if joined and self._length(text, small) <= crumb and self._length(text, both) <= capacity:
                joined[-1] = both
            else:
                joined.append(core)
        return joined

    def _length(self, text: str, span: Span) -> int:
        return self._measure(text[span.start : span.end])

    def _lead(self, text: str, first: int, at: int, repeated: int) -> int:
        """Where a chunk whose own text begins at `at` begins, not before `first`."""
        if not repeated or first >= at:
            return at
        by_line = self.content_type is ContentType.CODE
        # More characters than any language has in a token, so that long texts are not counted whole.
        low, high = max(first, at - repeated * (1 if self._characters else 16)), at
        while low < high:
            middle = (low + high) // 2
            if self._length(text, Span(middle, at)) <= repeated:
                high = middle
            else:
                low = middle + 1
        return lead(text, high, at, by_line=by_line)


def _checked_sizes(sizes: object) -> tuple[int, ...]:
    given = [sizes] if isinstance(sizes, int) else listed(sizes, "sizes")
    checked = tuple(sorted({checked_count(size, "a size", most=_MOST) for size in given}))
    if len(checked) not in _LEVELS:
        raise InvalidInputError(f"sizes must be one to three numbers, got {shown(sizes)}")
    if any(small * 2 > large for small, large in pairwise(checked)):
        raise InvalidInputError(f"each size must be at least twice the one below it, got {shown(sizes)}")
    return checked


def _checked_overlap(overlap: object) -> float:
    if (
        isinstance(overlap, bool)
        or not isinstance(overlap, int | float)
        or not 0 <= overlap <= _LARGEST_OVERLAP
    ):
        raise InvalidInputError(
            f"overlap is a share of the size, from 0 to {_LARGEST_OVERLAP}, got {shown(overlap)}"
        )
    return float(overlap)
