"""`AsyncMemory`: the verbs of `Memory` for a running event loop, each in one worker-thread hop.

The work itself (SQLite, NumPy, tokenizers, the embedded engine) blocks, so a native async core would
hop for every port; one hop for a whole call was measured to be cheaper. Cancelling an `await` does
not stop work that has begun: what it wrote is written.
"""

from memkit_core.aio.documents import AsyncDocuments
from memkit_core.aio.formation import AsyncFormation
from memkit_core.aio.items import AsyncItems
from memkit_core.aio.memory import AsyncMemory
from memkit_core.aio.notes import AsyncRuns, AsyncWorkingMemory
from memkit_core.aio.sessions import AsyncPersistQueue, AsyncSessions, AsyncSummaries
from memkit_core.aio.transfer import AsyncTransfer
from memkit_core.aio.typed import AsyncEpisodes, AsyncProfiles, AsyncSkills
from memkit_core.aio.upkeep import AsyncUpkeep

__all__ = [
    "AsyncDocuments",
    "AsyncEpisodes",
    "AsyncFormation",
    "AsyncItems",
    "AsyncMemory",
    "AsyncPersistQueue",
    "AsyncProfiles",
    "AsyncRuns",
    "AsyncSessions",
    "AsyncSkills",
    "AsyncSummaries",
    "AsyncTransfer",
    "AsyncUpkeep",
    "AsyncWorkingMemory",
]
