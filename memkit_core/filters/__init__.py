"""The one filter grammar, and what it means.

A filter is data: a `Condition(key, op, value)`, or `And`, `Or`, `Not` of filters, or the dict form
that `parse_filter` reads::

    {"type": "fact"}                                     one key, equality
    {"importance": {"gte": 0.7}, "tags": {"contains": "diet"}}   several keys: all of them
    {"or": [{"metadata.pet.kind": "owl"}, {"not": {"metadata.age": {"exists": True}}}]}

Keys name record fields (`FIELDS`) or free metadata as `metadata.a.b`. A metadata key that itself
holds a dot, a quote or a space is quoted like JSON: `metadata."a.b"`. The two cannot collide.

Meaning, the same on every backend (`matches` is the definition; stores are tested against it):

- `eq`, `ne`: numbers compare as numbers (1 equals 1.0), text by code point, lists and dicts as
  whole values; a number never equals text and a bool never equals a number; `eq None` matches a
  key that holds null.
- `gt gte lt lte`: numbers with numbers, text with text (code point order); else no match. A field that holds a time
  takes all that `memkit_core.times` reads; a plain date is its midnight (UTC), so all of a day is
  `{"gte": "2026-03-31", "lt": "2026-04-01"}`.
- `in`, `nin`: equal to one / to none of the listed values; of a list, any / no element is.
- `contains`: a list has an element equal to the value; a text has it as a substring.
- `exists`: the key is there (null counts as there).
- A missing key matches `ne`, `nin` and `exists: False`, and nothing else. A field without a value,
  such as `expires_at` of a record that never expires, is a missing key.

What could never match is refused instead of answered with nothing: an unknown operator or key, a
`type`, `status` or `origin` that there is not, one tag compared with the whole list (`tags` takes
`contains` or `in`; tags compare in lower case, as they are stored). So are more than 500 conditions
and nesting deeper than 32.
"""

from memkit_core.filters.grammar import (
    FIELDS,
    METADATA,
    And,
    Condition,
    FieldKind,
    Filter,
    FilterLike,
    Not,
    Op,
    Or,
    condition,
    conjunction,
    indexable,
    metadata_key,
    parse_filter,
    parse_key,
)
from memkit_core.filters.meaning import MISSING, evaluate, holds, matches

__all__ = [
    "FIELDS",
    "METADATA",
    "MISSING",
    "And",
    "Condition",
    "FieldKind",
    "Filter",
    "FilterLike",
    "Not",
    "Op",
    "Or",
    "condition",
    "conjunction",
    "evaluate",
    "holds",
    "indexable",
    "matches",
    "metadata_key",
    "parse_filter",
    "parse_key",
]
