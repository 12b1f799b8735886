"""The opaque cursor of a listing, and the orders a listing can have. Shared by every store."""

from __future__ import annotations

import base64
import json

from memkit_core.errors import InvalidInputError, shown

ORDERS = ("created_at", "last_accessed_at", "access_count", "importance")
"""What a listing can be ordered by, highest first; ties, newest row first."""


_LARGEST = 2**63


def check_order(order: str) -> str:
    """`order` when it is one of `ORDERS`."""
    if not isinstance(order, str) or order not in ORDERS:
        raise InvalidInputError(f"list_records: order must be one of {', '.join(ORDERS)}, got {shown(order)}")
    return order


def write_cursor(order: str, value: float, seq: int) -> str:
    """The place after a row, so that the next page starts behind it whatever was written since."""
    return base64.urlsafe_b64encode(json.dumps([order, value, seq]).encode()).decode()


def read_cursor(cursor: str, order: str) -> tuple[float, int]:
    """The inverse of `write_cursor`.

    Raises:
        InvalidInputError: not a cursor of this listing.
    """
    try:
        found, value, seq = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, TypeError, AttributeError, RecursionError):
        found, value, seq = None, None, None
    fits = isinstance(value, int | float) and isinstance(seq, int) and abs(value) < _LARGEST
    if found != order or not fits or not 0 <= seq < _LARGEST:
        raise InvalidInputError(
            f"list_records: cursor {shown(cursor)} was not made by a listing ordered by {order}"
        )
    return value, seq
