"""Watermarks: which state of which store an export showed, as one text."""

from __future__ import annotations

from memkit_core.errors import InvalidInputError, shown


def write_watermark(store_id: str, change: int) -> str:
    """The watermark that stands for a change of a store."""
    return f"{store_id}:{change}"


def read_watermark(watermark: str, *, store_id: str, change: int) -> int:
    """The number of the change; `change` is the last one of the store.

    Raises:
        InvalidInputError: it is no watermark, or one of another store or of a later state.
    """
    store, _, number = watermark.rpartition(":") if isinstance(watermark, str) else ("", "", "")
    if not (store and number.isascii() and number.isdigit()):
        raise InvalidInputError(
            f"export_jsonl: watermark must be the one that an export gave, got {shown(watermark)}"
        )
    if store != store_id:
        raise InvalidInputError(
            f"export_jsonl: the watermark {watermark!r} is of another store than {store_id}; export all once"
        )
    if int(number) > change:
        raise InvalidInputError(
            f"export_jsonl: the watermark {watermark!r} lies ahead of this store, which has had {change} "
            "changes: it may have been put back from a backup; export all once"
        )
    return int(number)
