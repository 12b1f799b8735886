"""How namespace and key name the record of an item, and how its records are found by them.

The id of a record is the JSON list of the labels and the key, `["users","ann","theme"]`. Quotes are
escaped in it, so no two names have one id, and what lies in a namespace begins with the list of its
labels up to the comma: a prefix is a range of ids, and `["user",` is no beginning of `["users",...`.
What an item is found by beside its first text are records of their own: its id followed by a number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from memkit_core.errors import InvalidInputError, shown
from memkit_core.filters import METADATA, Condition, Filter, Op, Or, conjunction, metadata_key
from memkit_core.inputs import checked_id
from memkit_core.sequences import iterated

VALUE, TTL, PARTS = "value", "ttl", "parts"
"""The keys in the metadata of an item's record: what it holds, seconds to live, further texts."""
_LONGEST = 4_000

NO_PART: Filter = Condition(("source",), Op.EXISTS, False)
"""The records of items alone, without those of their further texts, whose `source` is the item's id."""


def value_key(*names: str) -> str:
    """The key in `memkit_core.filters` of what stands at these names in a value."""
    return metadata_key(VALUE, *names)


def value_path(*names: str) -> tuple[str, ...]:
    """The same, as the path of a `Condition`."""
    return (METADATA, VALUE, *names)


def checked_namespace(namespace: object) -> tuple[str, ...]:
    """The labels of a namespace.

    Raises:
        InvalidInputError: a text in place of a list of labels, or a label that cannot be an id.
    """
    labels = None if isinstance(namespace, str) else iterated(namespace)
    if labels is None:
        raise InvalidInputError(f"a namespace is a tuple of labels, got {shown(namespace)}")
    return tuple(checked_id(label, "a label of a namespace") for label in labels)


def item_id(namespace: object, key: object) -> str:
    """The id of the record of the item with this namespace and key.

    Raises:
        InvalidInputError: the namespace cannot be one, the key is no text or holds NUL or a lone
            surrogate, or both together are too long.
    """
    labels = checked_namespace(namespace)
    # An id is never empty; a key may be.
    name = "" if isinstance(key, str) and not key else checked_id(key, "key")
    written = _written([*labels, name])
    if len(written) > _LONGEST:
        raise InvalidInputError(
            f"namespace and key take at most {_LONGEST} characters together, got {len(written)}: {shown(name)}"
        )
    return written


def _written(names: Sequence[str]) -> str:
    return json.dumps(names, ensure_ascii=False, separators=(",", ":"))


def names_of(record_id: str) -> tuple[tuple[str, ...], str] | None:
    """The namespace and key that an id names; None for what `item_id` did not write."""
    try:
        names = json.loads(record_id)
    except (ValueError, RecursionError):
        return None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names[:-1]), names[-1]


def part_id(item: str, number: int) -> str:
    """The id of the record of a further text of `item`, which is an id; numbers begin at 1."""
    return f"{item}{number}"


def within(prefix: object) -> Filter | None:
    """The records of what lies in the namespace `prefix` or below it; None for all.

    Raises:
        InvalidInputError: as in `checked_namespace`.
    """
    labels = checked_namespace(prefix)
    if not labels:
        return None
    first = _written(labels)[:-1]
    # A comma follows the labels, and the character behind a comma is a hyphen.
    return conjunction(
        Condition(("id",), Op.GTE, f"{first},"),
        Condition(("id",), Op.LT, f"{first}-"),
    )


def of_items(ids: Sequence[str]) -> Filter:
    """The records of the items with these ids, those of their further texts too."""
    return Or((Condition(("id",), Op.IN, [*ids]), Condition(("source",), Op.IN, [*ids])))
