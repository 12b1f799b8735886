"""`RecordStoreContract`: all of what a record store promises."""

from __future__ import annotations

from memkit_core.testing.changes import ChangesContract
from memkit_core.testing.duplicates import DuplicatesContract
from memkit_core.testing.filters import FiltersContract
from memkit_core.testing.given_vectors import GivenVectorsContract
from memkit_core.testing.isolation import IsolationContract
from memkit_core.testing.jobs import JobsContract
from memkit_core.testing.keywords import KeywordIndexContract
from memkit_core.testing.life import DecidingContract, SuccessionContract, SweepingContract
from memkit_core.testing.lifecycle import LifecycleContract
from memkit_core.testing.log import LogContract
from memkit_core.testing.outbox import OutboxContract
from memkit_core.testing.partitions import PartitionsContract
from memkit_core.testing.recalls import RecallsContract
from memkit_core.testing.records import RecordsContract
from memkit_core.testing.records_listed import CandidatesContract, ExpiryContract, ListingContract
from memkit_core.testing.replacing import ReplacingContract
from memkit_core.testing.rewriting import RewritingContract
from memkit_core.testing.sessions import SessionsContract
from memkit_core.testing.spaces import SpacesContract
from memkit_core.testing.standing import StandingContract
from memkit_core.testing.values import ValuesContract
from memkit_core.testing.vectors import VectorsContract


class RecordStoreContract(
    RecordsContract,
    DuplicatesContract,
    ReplacingContract,
    ChangesContract,
    SuccessionContract,
    DecidingContract,
    SweepingContract,
    StandingContract,
    ListingContract,
    ExpiryContract,
    CandidatesContract,
    FiltersContract,
    KeywordIndexContract,
    PartitionsContract,
    VectorsContract,
    GivenVectorsContract,
    SpacesContract,
    OutboxContract,
    LogContract,
    RewritingContract,
    SessionsContract,
    ValuesContract,
    JobsContract,
    RecallsContract,
    IsolationContract,
    LifecycleContract,
):
    """What every `RecordStore` does, as tests. Subclass it and give it a fixture `store`.

    The fixture gives an empty store and closes it. Set `durable = False` when the store forgets with
    the process; else define `reopen(store)`.
    """
