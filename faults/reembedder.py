"""A change of the model in a process of its own: `python -m faults.reembedder <file> <dimension> <work>`.

Says that it begins, then of each batch that it is embedded, of each write of another thread its number
after the call has returned, and that it is done.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import threading

from faults.embedders import HashEmbedder, OldEmbedder
from faults.work import WORKS
from faults.writer import BUSY
from memkit_core import Memory


def main(path: str, dimension: str, work: str) -> None:
    """Embed anew, and write meanwhile."""
    config = dataclasses.replace(BUSY, embed_batch=10)
    steps, ended = WORKS[work]("w"), threading.Event()
    with Memory.open(path, embedder=OldEmbedder(dimension=int(dimension)), config=config) as memory:

        def write() -> None:
            step = 0
            while not ended.wait(0.003):
                steps.run(memory, step)
                os.write(1, b"%d\n" % step)
                step += 1

        writer = threading.Thread(target=write)
        os.write(1, b"begun\n")
        writer.start()
        memory.upkeep.reembed(HashEmbedder(pause=0.001), progress=lambda *_: os.write(1, b"batch\n"))
        ended.set()
        writer.join()
        os.write(1, b"done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
