"""The record store in one SQLite file."""

from memkit_core.stores.sqlite.looking import look
from memkit_core.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore", "look"]
