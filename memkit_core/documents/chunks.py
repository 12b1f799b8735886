"""Documents that are stored as chunks: the record of each, and what is known of it afterwards.

A chunk is a document of its own. `source` is the id of the document it was cut from, which no other
document of a collection has, and its metadata has under `CHUNK` where it stands. Where a document has
chunks of several sizes, tags say for which `Level` each of them answers: vector indexes know tags.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memkit_core.chunking import ContentChunker
from memkit_core.config import Config
from memkit_core.errors import InvalidInputError, shown
from memkit_core.filters import Condition, Filter, Op, Or
from memkit_core.inputs import checked_content, checked_text
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import CHUNK, MemoryRecord, RecallResult
from memkit_core.ports import Chunk, Level

_IDS = uuid.UUID("6d656d6b-6974-5f63-8875-6e6b73000001")
_SIZES = tuple(Level)
_TAGS = {level: f"memkit:{level.value}" for level in Level}
_BESIDE = " > "


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlace:
    """Where a stored chunk stands.

    Attributes:
        document: the id of the document it was cut from.
        level: its size among those of its document.
        number: its place among the chunks of its level, from 0.
        start, end: its place in the text of the document, in characters.
        context: what was embedded ahead of it.
        parent_id: the id of the larger chunk it is part of; None without one.
    """

    document: str
    level: Level
    number: int
    start: int
    end: int
    context: str
    parent_id: str | None


def chunk_place(record: MemoryRecord) -> ChunkPlace | None:
    """Where `record` stands in its document; None for what is no chunk."""
    stored = None if record.source is None else record.metadata.get(CHUNK)
    if record.source is None or not isinstance(stored, Mapping):
        return None
    level, number, start, end = (_whole(stored, name) for name in ("level", "number", "start", "end"))
    parent = _whole(stored, "parent", absent=-1)
    context = stored.get("context")
    return ChunkPlace(
        document=record.source,
        level=_SIZES[min(level, len(_SIZES) - 1)],
        number=number,
        start=start,
        end=end,
        context=context if isinstance(context, str) else "",
        parent_id=None if parent < 0 else _chunk_id(record.source, _whole(stored, "parent_level"), parent),
    )


def _whole(stored: Mapping[str, JsonValue], name: str, *, absent: int = 0) -> int:
    # Metadata can come from a file that somebody edited.
    value = stored.get(name)
    return value if isinstance(value, int) and value >= 0 else absent


def _chunk_id(document: str, level: int, number: int) -> str:
    # Derived, so that a chunk that did not change keeps its vector when its document is stored again.
    return str(uuid.uuid5(_IDS, f"{level}\0{number}\0{document}"))


def cut(text: str, chunker: object, *, config: Config) -> list[Chunk]:
    """What `chunker` makes of `text`; the name of a content type stands for its `ContentChunker`.

    Raises:
        InvalidInputError: no chunker, or one that gave no chunks of this text, or more than one call
            may write, or one too long to be stored.
        MissingDependencyError: the extra `chunking` is not installed.
    """
    chosen = ContentChunker(chunker) if isinstance(chunker, str) else chunker
    # Of a class, the call would make an object and cut nothing.
    if not callable(chosen) or isinstance(chosen, type):
        raise InvalidInputError(f"chunker must be a content type or a function, got {shown(chunker)}")
    given = chosen(text)
    if not isinstance(given, Sequence) or not all(isinstance(chunk, Chunk) for chunk in given):
        raise InvalidInputError(f"add_document: a chunker gives a list of Chunk, got {shown(given)}")
    if len(given) > config.max_batch:
        raise InvalidInputError(
            f"add_document: at most {config.max_batch} chunks of one document, got {len(given)}; choose larger "
            "sizes or split the document"
        )
    for chunk in given:
        # Of all of them before any parent is looked at.
        if chunk.level not in _SIZES:
            raise InvalidInputError(
                f"add_document: the level of a chunk is one of {', '.join(_SIZES)}, got {shown(chunk.level)}"
            )
    return [_checked(chunk, text, given, config) for chunk in given]


def _checked(chunk: Chunk, text: str, given: Sequence[Chunk], config: Config) -> Chunk:
    checked_content(chunk.content, max_chars=config.max_content_chars)
    if not _stands(chunk, text):
        raise InvalidInputError(
            f"add_document: the chunk {shown(chunk.content)} is not what stands from {shown(chunk.start)} to "
            f"{shown(chunk.end)}"
        )
    if chunk.parent is not None and not _larger(chunk, given):
        raise InvalidInputError(
            f"add_document: the parent of a chunk is the place of a larger one, got {shown(chunk.parent)}"
        )
    about = checked_text(chunk.context, "the context of a chunk", max_chars=config.max_content_chars)
    return dataclasses.replace(chunk, context=about)


def _stands(chunk: Chunk, text: str) -> bool:
    whole = isinstance(chunk.start, int) and isinstance(chunk.end, int)
    return whole and 0 <= chunk.start < chunk.end and text[chunk.start : chunk.end] == chunk.content


def _larger(chunk: Chunk, given: Sequence[Chunk]) -> bool:
    if not isinstance(chunk.parent, int) or not 0 <= chunk.parent < len(given):
        return False
    return _SIZES.index(given[chunk.parent].level) > _SIZES.index(chunk.level)


def chunk_records(chunks: Sequence[Chunk], plain: MemoryRecord, *, context: str) -> list[MemoryRecord]:
    """The records of a document's chunks, in the order of `chunks`.

    `plain` has what all of them share, its `source` the id of the document; `context` is what it is about.

    Raises:
        InvalidInputError: the metadata has memkit's own key.
    """
    if CHUNK in plain.metadata:
        raise InvalidInputError(f"metadata: the key {CHUNK!r} is memkit's own; name yours otherwise")
    document = str(plain.source)
    levels = [_SIZES.index(chunk.level) for chunk in chunks]
    seen = Counter[int]()
    numbers = []
    for level in levels:
        numbers.append(seen[level])
        seen[level] += 1
    present = sorted(set(levels))
    records = []
    for chunk, level, number in zip(chunks, levels, numbers, strict=True):
        about = _BESIDE.join(part for part in (context, chunk.context) if part)
        place: dict[str, JsonValue] = {
            "level": level, "number": number, "start": chunk.start, "end": chunk.end, "context": about
        }  # fmt: skip
        if chunk.parent is not None:
            place |= {"parent": numbers[chunk.parent], "parent_level": levels[chunk.parent]}
        records.append(
            dataclasses.replace(
                plain,
                id=_chunk_id(document, level, number),
                content=chunk.content,
                metadata={**plain.metadata, CHUNK: place},
                tags=_answering(level, present) if len(present) > 1 else (),
            )
        )
    return records


def _answering(level: int, present: Sequence[int]) -> tuple[str, ...]:
    """The tags of the levels for which `level` is the nearest there is, the smaller one of two."""
    return tuple(
        _TAGS[name]
        for asked, name in enumerate(_SIZES)
        if min(present, key=lambda one: (abs(one - asked), one)) == level
    )


def in_order(records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    """The chunks among `records`, the smallest first and those of a size in the order of the text."""
    placed = [(place, record) for record in records if (place := chunk_place(record)) is not None]
    placed.sort(key=lambda one: (_SIZES.index(one[0].level), one[0].number))
    return [record for _, record in placed]


def with_parents(
    result: RecallResult, get: Callable[[Sequence[str]], Sequence[MemoryRecord]]
) -> RecallResult:
    """The same hits, each with the larger chunk it was cut from, which `get` gives by its id.

    Without it where its document was replaced meanwhile.
    """
    places = [chunk_place(hit.record) for hit in result]
    ids = [None if place is None else place.parent_id for place in places]
    found = {record.id: record for record in get([one for one in ids if one is not None])}
    hits = (
        dataclasses.replace(hit, parent=_holding(hit.record, None if one is None else found.get(one)))
        for hit, one in zip(result, ids, strict=True)
    )
    return dataclasses.replace(result, hits=tuple(hits))


def _holding(record: MemoryRecord, parent: MemoryRecord | None) -> MemoryRecord | None:
    return parent if parent is not None and record.content in parent.content else None


def has_several_sizes(record: MemoryRecord) -> bool:
    """Whether there are chunks of other sizes beside this one."""
    return chunk_place(record) is not None and any(tag in record.tags for tag in _TAGS.values())


def of_level(level: Level) -> Filter:
    """What answers for `level`: chunks of that size or the nearest, and what has one size only."""
    return Or(
        (
            Condition(("tags",), Op.NIN, [*_TAGS.values()]),
            Condition(("tags",), Op.CONTAINS, _TAGS[level]),
        )
    )


def of_documents(ids: Sequence[str]) -> Filter:
    """The chunks of the documents with these ids."""
    return Condition(("source",), Op.IN, [*ids])
