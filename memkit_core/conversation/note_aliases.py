"""The one name that each value of a note has, where a schema has aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from memkit_core.errors import InvalidInputError, shown

if TYPE_CHECKING:
    from pydantic import BaseModel


def dumped(schema: type[BaseModel], instance: Any) -> object:
    """An instance as the JSON that the schema reads: by the aliases, unless it reads only the names.

    Raises:
        InvalidInputError: it cannot be written as JSON.
    """
    dump = partial(instance.model_dump, mode="json", exclude_unset=True, round_trip=True)
    try:
        by_alias, by_name = dump(by_alias=True), dump(by_alias=False)
    except Exception as error:
        raise InvalidInputError(
            f"{type(instance).__name__} cannot be written as JSON: {type(error).__name__}: {shown(str(error))}"
        ) from error
    if by_alias != by_name and not _reads(schema, by_alias, instance) and _reads(schema, by_name, instance):
        return by_name
    return by_alias


def _reads(schema: type[BaseModel], plain: object, instance: object) -> bool:
    try:
        return bool(schema.model_validate(plain, strict=False) == instance)
    except Exception:  # noqa: BLE001 - a validator is the caller's code; what it refuses is said when all is checked
        return False


def by_alias(annotation: Any, value: object) -> object:
    """JSON with the aliases in place of field names, where the schema takes both.

    Otherwise what is appended by its name would stand beside what was stored by its alias, and the
    schema would read only one of the two.
    """
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return by_alias(args[0], value)
    if origin in (Union, UnionType):
        renamed = (by_alias(one, value) for one in args)
        return next((one for one in renamed if one != value), value)
    if isinstance(value, list) and args and isinstance(origin, type) and issubclass(origin, Sequence | set):
        return [by_alias(args[0], item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(origin, type) and issubclass(origin, Mapping) and args:
        return {key: by_alias(args[-1], item) for key, item in value.items()}
    fields = getattr(annotation, "model_fields", None)
    return value if fields is None else _fields_by_alias(annotation, fields, value)


def _fields_by_alias(schema: Any, fields: Mapping[str, Any], content: dict[str, object]) -> dict[str, object]:
    config = schema.model_config
    both = config.get("populate_by_name") or config.get("validate_by_name")
    aliases = {
        name: field.validation_alias
        for name, field in fields.items()
        if isinstance(field.validation_alias, str) and (both or field.validation_alias == name)
    }
    known = {
        field.validation_alias: field for field in fields.values() if isinstance(field.validation_alias, str)
    }
    renamed: dict[str, object] = {}
    for key, value in content.items():
        field = known.get(key) or fields.get(key)
        name = aliases.get(key, key) if key not in known else key
        if name in content and name != key:
            raise InvalidInputError(f"{key} and {name} are two names of one value; give one of them")
        renamed[name] = value if field is None else by_alias(field.annotation, value)
    return renamed
