"""An import in a process of its own: `python -m faults.importer <file> <export>`.

Says so before it begins and after each piece, and takes few lines a transaction.
"""

from __future__ import annotations

import os
import sys

from faults.embedders import HashEmbedder
from faults.writer import BUSY
from memkit_core import Memory
from memkit_core.transfer import importing


def main(path: str, export: str) -> None:
    """Import."""
    importing.BATCH = 10
    with Memory.open(path, embedder=HashEmbedder(pause=0.0005), config=BUSY) as memory:
        os.write(1, b"begun\n")
        memory.transfer.import_jsonl(export, progress=lambda *_: os.write(1, b"piece\n"))
        os.write(1, b"done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
