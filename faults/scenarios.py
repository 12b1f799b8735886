"""Every scenario, in the order of the table."""

from __future__ import annotations

from faults.consolidating import killed_while_consolidating
from faults.damages import damaged
from faults.deleting import killed_while_deleting
from faults.embedders import FAULTS
from faults.embedding import embedder_that
from faults.findings import Scenario
from faults.importing import killed_while_importing
from faults.kills import killed_while
from faults.processes import forked, long_reader, writers_and_reader
from faults.reembedding import killed_while_reembedding
from faults.streaming import killed_while_streaming
from faults.surroundings import clock_set_back, no_room
from faults.work import WORKS

_VERBS = {"delete": "delete of an id", "delete_scope": "delete of a scope", "append": "append of messages"}
_FAULTS = {
    "raises": "raises",
    "count": "returns a vector too few",
    "length": "returns vectors of another length",
    "nan": "returns NaN",
    "hangs": "hangs",
}

SCENARIOS: tuple[Scenario, ...] = (
    *(
        Scenario(
            name=f"kill-{work}",
            what=f"kill -9 during {_VERBS.get(work, work)}",
            run=killed_while(work),
            full=50,
            short=3,
        )
        for work in WORKS
    ),
    Scenario(
        name="kill-stream",
        what="kill -9 of two processes that stream turns into one session",
        run=killed_while_streaming,
        full=50,
        short=3,
    ),
    Scenario(
        name="kill-import",
        what="kill -9 during an import, then the same import again",
        run=killed_while_importing,
        full=20,
        short=2,
    ),
    Scenario(
        name="kill-reembed",
        what="kill -9 during a change of the embedding model, then the same again",
        run=killed_while_reembedding,
        full=20,
        short=2,
    ),
    Scenario(
        name="kill-consolidation",
        what="kill -9 during a consolidation, then the same again",
        run=killed_while_consolidating,
        full=20,
        short=2,
    ),
    Scenario(
        name="kill-delete-user",
        what="kill -9 during the delete of a user with 5,000 records, then the same again",
        run=killed_while_deleting,
        full=20,
        short=1,
    ),
    *(
        Scenario(
            name=f"embedder-{fault}",
            what=f"the embedder {_FAULTS[fault]}",
            run=embedder_that(fault),
            full=20,
            short=2,
        )
        for fault in FAULTS
    ),
    Scenario(
        name="writers",
        what="three writers and a reader in four processes",
        run=writers_and_reader,
        full=20,
        short=2,
        unit="seconds",
    ),
    Scenario(name="fork", what="fork while the memory is open", run=forked, full=20, short=1),
    Scenario(
        name="long-reader",
        what="a reader in another process holds one state",
        run=long_reader,
        full=60,
        short=2,
        unit="seconds",
    ),
    Scenario(name="index", what="the index is damaged or deleted", run=damaged, full=2, short=0),
    Scenario(name="no-room", what="less room on the disk than the reserve", run=no_room, full=10, short=2),
    Scenario(name="clock", what="the clock is set back an hour", run=clock_set_back, full=10, short=1),
)
