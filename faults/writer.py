"""A writer in a process of its own: `python -m faults.writer <file> <work> <name> <seconds>`.

Prints the number of each step after its call has returned, and goes on until it is killed or the
seconds are over. Everything that happens now and then is made to happen all the time.
"""

from __future__ import annotations

import os
import sys
import time

from faults.embedders import HashEmbedder
from faults.work import WORKS
from memkit_core import Config, Memory

BUSY = Config(outbox_seconds=0.02, wal_checkpoint_bytes=64 * 1024, index_batch=16, disk_reserve=1)
"""Many checkpoints, many passes of the worker, many small writes of the index."""


def main(path: str, work: str, name: str, seconds: str) -> None:
    """Write."""
    ends = time.monotonic() + float(seconds)
    steps = WORKS[work](name)
    with Memory.open(path, embedder=HashEmbedder(pause=0.0005), config=BUSY) as memory:
        step = 0
        while time.monotonic() < ends:
            steps.run(memory, step)
            # Not through a buffer: what was acknowledged must be known when the process dies.
            os.write(1, b"%d\n" % step)
            step += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
