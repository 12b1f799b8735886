"""Cutting long texts into chunks that are embedded one by one (extra `chunking`).

`ContentChunker` cuts by what a text is: documentation, code, a conversation or an article. It can be
used alone; `Documents.add_document` stores what it, or any other `Chunker`, gives.
"""

from memkit_core.chunking.chunker import HIERARCHY, SIZES, ContentChunker, ContentType
from memkit_core.chunking.levels import level_for
from memkit_core.ports import Chunk, Chunker, Level

__all__ = [
    "HIERARCHY",
    "SIZES",
    "Chunk",
    "Chunker",
    "ContentChunker",
    "ContentType",
    "Level",
    "level_for",
]
