"""Versioned values: working memories and run states."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from memkit_core.jsonvalues import JsonValue
from memkit_core.models import DeleteReceipt, StoredValue
from memkit_core.scope import Scope


class ValueTable(Protocol):
    """JSON values with versions, one a scope, kind and key: working memories and run states."""

    def get(self, scope: Scope, kind: str, key: str) -> StoredValue | None:
        """The newest version, None when there is none."""

    def put(
        self,
        scope: Scope,
        kind: str,
        key: str,
        value: JsonValue,
        *,
        label: str | None = None,
        expected_version: int | None = None,
        keep: int = 0,
        now: datetime,
    ) -> StoredValue:
        """Write the next version and return it; up to `keep` earlier ones are kept.

        One transaction. `expected_version` is the version that is replaced, 0 for "there is none".

        Raises:
            ConflictError: `expected_version` is given and is not the stored version; nothing is written.
        """

    def history(self, scope: Scope, kind: str, key: str) -> list[StoredValue]:
        """The versions that are kept, oldest first, the newest one included; empty when unknown."""

    def delete(self, scope: Scope, kind: str, key: str) -> DeleteReceipt:
        """Delete a value with its versions; an unknown one counts as nothing."""

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, scope: Scope, kind: str, *, label: str | None = None) -> list[StoredValue]:
        """The values of a kind, with that label if one is given, last written first.

        Of those written in the same moment the last made comes first.
        """
