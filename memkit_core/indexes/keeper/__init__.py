"""Who may use an index, and whether it can be trusted.

A keeper hands out the vector index of one vector space of a store, or None while this process cannot
have it. An index that outlives the process is compared with the store before it is believed, and
rebuilt from the store's vectors, with no embedding call, when anything is out of step. What it and
the store agree on is written in a manifest beside the store's file.
"""

from memkit_core.indexes.keeper.disk import check_disk, space_name
from memkit_core.indexes.keeper.flat import FlatKeeper
from memkit_core.indexes.keeper.port import IndexKeeper, passing
from memkit_core.indexes.keeper.stored import StoredKeeper

__all__ = [
    "FlatKeeper",
    "IndexKeeper",
    "StoredKeeper",
    "check_disk",
    "passing",
    "space_name",
]
