"""The values themselves, and how each becomes a record and is read from one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memkit_core.errors import InvalidInputError, shown
from memkit_core.inputs import checked_id, listed
from memkit_core.jsonvalues import JsonValue, canonical_json, checked_metadata
from memkit_core.models import MemoryRecord, RecordType
from memkit_core.times import TimeLike, to_utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One document about its owner: there is one of each `key` in a scope, in versions."""

    key: str
    document: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Something that happened: when, what came of it, what was learned."""

    summary: str
    occurred_at: TimeLike | None = None
    outcome: str | None = None
    key_insights: Sequence[str] = field(default=())
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """How a kind of task is done: its steps, in order, and examples."""

    task_type: str
    steps: Sequence[str]
    examples: Sequence[str] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a value becomes as a record."""

    kind: RecordType
    name: str
    """The metadata key its fields stand under."""
    content: str
    fields: dict[str, JsonValue]
    key: str | None = None
    occurred_at: datetime | None = None


def shape_of_profile(profile: Profile) -> Shape:
    """A profile as a record."""
    key = checked_id(profile.key, "key")
    if not isinstance(profile.document, Mapping):
        raise InvalidInputError(f"document must be a dict, got {shown(profile.document)}")
    document = checked_metadata(profile.document, name="document")
    content = "\n".join([key, *(f"{name}: {value}" for name, value in _lines(document))])
    return Shape(kind=RecordType.PROFILE, name="profile", content=content, fields=document, key=key)


def shape_of_episode(episode: Episode) -> Shape:
    """An episode as a record."""
    summary, insights = _text(episode.summary, "summary"), _texts(episode.key_insights, "key_insights")
    outcome, topic = _optional(episode.outcome, "outcome"), _optional(episode.topic, "topic")
    told = [
        summary,
        *_named("Topic", topic),
        *_named("Outcome", outcome),
        *(f"Insight: {one}" for one in insights),
    ]
    return Shape(
        kind=RecordType.EVENT,
        name="episode",
        content="\n".join(told),
        fields={"summary": summary, "outcome": outcome, "key_insights": [*insights], "topic": topic},
        occurred_at=None if episode.occurred_at is None else to_utc(episode.occurred_at, name="occurred_at"),
    )


def shape_of_skill(skill: Skill) -> Shape:
    """A skill as a record."""
    task, steps = _text(skill.task_type, "task_type"), _texts(skill.steps, "steps")
    examples = _texts(skill.examples, "examples")
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, start=1)]
    return Shape(
        kind=RecordType.SKILL,
        name="skill",
        content="\n".join([task, *numbered, *(f"Example: {one}" for one in examples)]),
        fields={"task_type": task, "steps": [*steps], "examples": [*examples]},
    )


def read_profile(record: MemoryRecord) -> Profile | None:
    """The profile of a record, None when it holds none."""
    document = record.metadata.get("profile")
    if record.key is None or not isinstance(document, dict):
        return None
    return Profile(key=record.key, document=document)


def read_episode(record: MemoryRecord) -> Episode | None:
    """The episode of a record, None when it holds none."""
    match record.metadata.get("episode"):
        case {"summary": str(summary), "outcome": outcome, "key_insights": list(insights), "topic": topic}:
            return Episode(
                summary=summary,
                occurred_at=record.occurred_at,
                outcome=None if outcome is None else str(outcome),
                key_insights=tuple(map(str, insights)),
                topic=None if topic is None else str(topic),
            )
    return None


def read_skill(record: MemoryRecord) -> Skill | None:
    """The skill of a record, None when it holds none."""
    match record.metadata.get("skill"):
        case {"task_type": str(task), "steps": list(steps), "examples": list(examples)}:
            return Skill(task_type=task, steps=tuple(map(str, steps)), examples=tuple(map(str, examples)))
    return None


def _lines(document: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in document.items():
        if isinstance(value, dict) and value:
            yield from _lines(value, f"{prefix}{name}.")
        elif isinstance(value, list) and all(isinstance(one, str) for one in value):
            yield f"{prefix}{name}", ", ".join(map(str, value))
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else canonical_json(value)


def _named(name: str, text: str | None) -> list[str]:
    return [] if text is None else [f"{name}: {text}"]


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{name} must be text that says something, got {shown(value)}")
    return value


def _optional(value: object, name: str) -> str | None:
    return None if value is None else _text(value, name)


def _texts(values: object, name: str) -> tuple[str, ...]:
    return tuple(_text(value, name) for value in listed(values, name))
