"""What a chat model is asked to fill unless you give a schema of your own."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

_OTHER_WORDS = ("text", "fact", "memory")
"""What chat models call the content of an item when they do not call it that."""
_NO_NAMES = frozenset({"null", "none", "nil", "n.a", "undefined", "-"})
"""What chat models write for a key that there is not; as a key it would make each item supersede the one before."""


def _in_a_list(value: Any) -> Any:
    if value is None:
        return []
    items = [value] if isinstance(value, str | dict) else value
    return [item for item in items if not _is_blank(item)] if isinstance(items, list) else items


def _is_blank(item: object) -> bool:
    return isinstance(item, str) and not item.strip()


def _spelt_out(value: Any) -> Any:
    if not isinstance(value, dict) or "content" in value:
        return {"content": value} if isinstance(value, str) else value
    said = next((word for word in _OTHER_WORDS if isinstance(value.get(word), str)), None)
    return value if said is None else {**value, "content": value[said]}


def _fraction(value: Any) -> Any:
    sure = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return value if sure else None


def _numbers(value: Any) -> Any:
    return [number for number in value if type(number) is int] if isinstance(value, list) else []


def _name(value: Any) -> Any:
    """A key in one spelling: a model writes "Home.City" today and "home city" tomorrow."""
    name = re.sub(r"[\s./:]+", ".", value.casefold()).strip(".") if isinstance(value, str) else ""
    return None if not name or name in _NO_NAMES else name


class FormedItem(BaseModel):
    """One memory."""

    content: str = Field(
        min_length=1, description="one sentence that stands by itself, names instead of pronouns"
    )
    key: Annotated[str | None, BeforeValidator(_name)] = Field(
        default=None,
        description="a dotted name if this is the one value of something that may change, such as home.city",
    )
    confidence: Annotated[float | None, BeforeValidator(_fraction)] = Field(
        default=None, description="0 to 1: how sure it is that this was said and meant"
    )
    sources: Annotated[list[int], BeforeValidator(_numbers)] = Field(
        default_factory=list, description="the numbers of the messages that say it"
    )


Item = Annotated[FormedItem, BeforeValidator(_spelt_out)]
Items = Annotated[list[Item], BeforeValidator(_in_a_list)]


class Formed(BaseModel):
    """What is worth remembering of a conversation. A chat model may write one text, or texts, for items."""

    facts: Items = Field(default_factory=list, description="what is so, for longer than this conversation")
    preferences: Items = Field(default_factory=list, description="what somebody likes, wants or avoids")
    tasks: Items = Field(default_factory=list, description="what is to be done, by whom and until when")
    patterns: Items = Field(default_factory=list, description="how somebody usually behaves")
    episodes: Items = Field(default_factory=list, description="what happened, and how it ended")
    skills: Items = Field(default_factory=list, description="how something is done, step by step")
