"""The records that an item to be put becomes, and the item that is read from one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memkit_core.config import Config
from memkit_core.errors import InvalidInputError, shown
from memkit_core.inputs import listed
from memkit_core.items.names import PARTS, TTL, VALUE, item_id, names_of, part_id
from memkit_core.jsonvalues import JsonValue, checked_metadata
from memkit_core.models import MemoryRecord, Target
from memkit_core.text.clean import storable

_LONGEST_TTL = 1e12
_MOST_PARTS = 100_000
"""Above all that a call can put: a file that is imported may say any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """A value to be put under a namespace and a key.

    Attributes:
        namespace: labels, from the widest to the narrowest.
        key: names the value in its namespace.
        value: a mapping that is JSON, see `memkit_core.jsonvalues`.
        texts: what it is found by, each of its own; without any it is in no ranking.
        ttl: seconds after the last write, or the last read that refreshes, after which it expires.
    """

    namespace: Sequence[str]
    key: str
    value: Mapping[str, object]
    texts: Sequence[str] = ()
    ttl: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A stored value. Its `value` is the reader's own: changing it changes nothing stored.

    Attributes:
        namespace, key: name it.
        value: what was put.
        created_at: when it was first put; `updated_at` when last.
        expires_at: when it is gone, None for never.
        score: of a search: its similarity to the query in [0, 1], higher is better; None when it was
            not compared.
    """

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, JsonValue]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    score: float | None = None


def build_item(new: object, *, target: Target, config: Config, now: datetime) -> list[MemoryRecord]:
    """The records that a `NewItem` becomes: its own first, then one for each text but the first.

    Raises:
        InvalidInputError: names what cannot be stored.
    """
    if not isinstance(new, NewItem):
        raise InvalidInputError(f"put takes a list of NewItem, got {shown(new)}")
    if not isinstance(new.value, Mapping):
        raise InvalidInputError(f"the value of an item must be a mapping, got {shown(new.value)}")
    metadata = checked_metadata({VALUE: new.value}, name="item")
    texts = _texts(new.texts, most=config.max_content_chars)
    expires_at = None
    if new.ttl is not None:
        metadata[TTL] = checked_ttl(new.ttl)
        expires_at = expiry(now, new.ttl)
    if texts[1:]:
        metadata[PARTS] = len(texts) - 1
    own = MemoryRecord(
        id=item_id(new.namespace, new.key),
        scope=target.scope,
        space=target.space,
        content=texts[0] if texts else "",
        metadata=metadata,
        agent_id=config.agent_id,
        created_at=now,
        updated_at=now,
        expires_at=expires_at,
    )
    parts = (
        dataclasses.replace(own, id=part_id(own.id, number), content=text, metadata={}, source=own.id)
        for number, text in enumerate(texts[1:], start=1)
    )
    return [own, *parts]


def _texts(given: object, *, most: int) -> list[str]:
    """The distinct texts that hold something; what is longer than can be indexed is cut, the value never."""
    texts = listed(given, "texts")
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(f"texts must be a list of texts, got {shown(text)}")
    return [*dict.fromkeys(storable(text[:most]) for text in texts if text.strip())]


def checked_ttl(seconds: object) -> float:
    """Seconds to live: a number above 0."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_TTL:
        raise InvalidInputError(
            f"a time to live must be a number above 0 and of at most {_LONGEST_TTL:g}, got {shown(seconds)}"
        )
    return float(seconds)


def expiry(now: datetime, seconds: float) -> datetime:
    """The moment so many seconds after `now`.

    Raises:
        InvalidInputError: there is no such moment.
    """
    try:
        return now + timedelta(seconds=seconds)
    except OverflowError:
        raise InvalidInputError(
            f"a time to live of {seconds:g} seconds ends beyond all dates; give none for what never expires"
        ) from None


def ttl_of(record: MemoryRecord) -> float | None:
    """The seconds to live of an item; None for what never expires."""
    seconds = record.metadata.get(TTL)
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def parts_of(record: MemoryRecord) -> list[str]:
    """The ids of the records of its further texts."""
    number = record.metadata.get(PARTS)
    if not isinstance(number, int):
        return []
    return [part_id(record.id, one + 1) for one in range(min(number, _MOST_PARTS))]


def read_item(record: MemoryRecord, *, score: float | None = None) -> Item | None:
    """The item of a record; None for a record that is none: a file that is imported may hold anything."""
    names, value = names_of(record.id), record.metadata.get(VALUE)
    if names is None or not isinstance(value, dict):
        return None
    namespace, key = names
    return Item(
        namespace=namespace,
        key=key,
        value=value,
        created_at=record.created_at,
        updated_at=record.updated_at,
        expires_at=record.expires_at,
        score=score,
    )
