"""What a LangGraph store is given, read and checked: operations, index and TTL settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

from langchain_memkit._langgraph import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    validate_op_namespace,
)
from memkit_core import ConfigError, InvalidInputError
from memkit_core.errors import shown
from memkit_core.items.building import checked_ttl
from memkit_core.jsonvalues import JsonValue

Namespace = tuple[str, ...]
_WHOLE = "$"
_TTL_KEYS: Mapping[str, Callable[[object], bool]] = {
    "refresh_on_read": lambda value: isinstance(value, bool),
    "omit_expired": lambda value: isinstance(value, bool),
    "default_ttl": lambda value: value is None or bool(checked_ttl(value)),
    "sweep_interval_minutes": lambda value: value is None or bool(checked_ttl(value)),
}


def checked_op(op: object) -> Op:
    """An operation that can be done.

    Raises:
        InvalidNamespaceError: its namespace cannot be one.
        InvalidInputError: it is none.
    """
    if not isinstance(op, GetOp | PutOp | SearchOp | ListNamespacesOp):
        raise InvalidInputError(f"batch takes operations of a store, got {shown(op)}")
    if isinstance(op, ListNamespacesOp):
        if not isinstance(op.match_conditions, tuple | list | None):
            raise InvalidInputError(f"match conditions are a tuple of them, got {shown(op.match_conditions)}")
        for condition in op.match_conditions or ():
            if not isinstance(condition, MatchCondition) or condition.match_type not in ("prefix", "suffix"):
                raise InvalidInputError(
                    f"a match condition has the type 'prefix' or 'suffix', got {shown(condition)}"
                )
            _check_labels(condition.path)
    else:
        _check_labels(op.namespace_prefix if isinstance(op, SearchOp) else op.namespace)
        if not isinstance(op, SearchOp) and not isinstance(op.key, str):
            raise InvalidInputError(f"a key must be a text, got {shown(op.key)}")
    validate_op_namespace(op)
    if isinstance(op, PutOp) and not op.namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    return op


def _check_labels(namespace: object) -> None:
    # A text would be a namespace of its characters.
    if not isinstance(namespace, tuple | list):
        raise InvalidNamespaceError(f"A namespace is a tuple of labels, got {shown(namespace)}")


def common_prefix(conditions: Sequence[MatchCondition]) -> Namespace:
    """Labels that all namespaces begin with which satisfy the conditions."""
    for condition in conditions:
        if condition.match_type == "prefix":
            path = tuple(condition.path)
            return path[: path.index("*")] if "*" in path else path
    return ()


def matches_condition(condition: MatchCondition, namespace: Namespace) -> bool:
    """Whether a namespace begins, or ends, as `condition` says; `"*"` stands for any one label."""
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return not path or all(asked in ("*", label) for asked, label in zip(path, part, strict=True))


def indexed_fields(index: object) -> list[str] | None:
    """The fields that are indexed where a put does not say it; None when nothing is."""
    if index is False:
        return None
    if index is None:
        return [_WHOLE]
    if not isinstance(index, Mapping):
        raise ConfigError(f"index must be a dict, None or False, got {shown(index)}")
    if unknown := sorted(str(key) for key in index.keys() - {"dims", "embed", "fields"}):
        raise ConfigError(f"index takes dims, embed and fields, not {', '.join(unknown)}")
    fields = index.get("fields")
    return [_WHOLE] if fields is None else checked_fields(fields)


def checked_fields(fields: object) -> list[str]:
    """Paths of fields to index."""
    if not isinstance(fields, list | tuple) or not all(isinstance(field, str) for field in fields):
        raise InvalidInputError(f"index takes a list of paths such as 'a.b' or 'c[*].d', got {shown(fields)}")
    return [*fields]


def own_embedding(index: object) -> object:
    """The model of the store's own, None for the memory's."""
    embed = index.get("embed") if isinstance(index, Mapping) else None
    if embed is None or isinstance(embed, str) or not callable(embed) or hasattr(embed, "embed_documents"):
        return embed
    if inspect.iscoroutinefunction(embed) or inspect.iscoroutinefunction(getattr(embed, "__call__", None)):  # noqa: B004 - an object whose call is async
        raise ConfigError(
            "index: embed is an async function; give one that answers at once: abatch waits for it in a thread"
        )
    return ensure_embeddings(embed)


def texts_of(value: dict[str, JsonValue], fields: Sequence[str]) -> list[str]:
    """The texts that stand at these paths, each by itself."""
    return [text for field in fields for text in get_text_at_path(value, field)]


def checked_ttl_config(ttl: object) -> TTLConfig | None:
    """The settings of times to live, None without any."""
    if ttl is None:
        return None
    if not isinstance(ttl, Mapping):
        raise ConfigError(f"ttl must be a dict, got {shown(ttl)}")
    for key, value in ttl.items():
        if key not in _TTL_KEYS:
            raise ConfigError(f"ttl takes {', '.join(_TTL_KEYS)}, not {shown(key)}")
        if not _TTL_KEYS[key](value):
            raise ConfigError(f"ttl: {key} cannot be {shown(value)}")
    return TTLConfig(**ttl)  # type: ignore[typeddict-item]  # its keys were looked at
