"""When the thread behind a memory works: soon, at once, and confirmed within its interval."""

from memkit_core import worker as working
from memkit_core.worker import Worker


class Indexers:
    """Tells what was asked of the indexes."""

    def __init__(self):
        self.asked = []

    def sync(self):
        self.asked.append("sync")

    def flush(self):
        self.asked.append("flush")


class Noted:
    """Nothing was noted."""

    def write(self):
        """Nothing is written."""


def test_a_change_soon_does_not_put_off_the_whole_round(monkeypatch):
    """What was written to the index shortly before a round is confirmed with it, not an interval later."""
    now, waits, indexers = [0.0], [], Indexers()
    monkeypatch.setattr(working.time, "monotonic", lambda: now[0])
    worker = Worker(indexers, Noted(), interval=10.0)

    class Woken:
        """Set once, after nine of ten seconds."""

        def wait(self, seconds):
            waits.append(seconds)
            if len(waits) == 1:
                now[0] += 9.0
                return True
            now[0] += seconds
            worker._stopped = True
            return False

        def clear(self):
            """It is asked only once."""

    class Hurried:
        """Nobody is in a hurry."""

        def wait(self, _seconds):
            return False

        def is_set(self):
            return False

        def clear(self):
            """It never was set."""

    worker._run(Woken(), Hurried())
    assert waits == [10.0, 1.0]
    assert indexers.asked == ["sync", "sync", "flush"]
