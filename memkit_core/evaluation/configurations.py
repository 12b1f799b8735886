"""Configurations that an evaluation compares, and their form on the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memkit_core.embedders.absent import AbsentEmbedder
from memkit_core.embedders.resolve import resolve_embedder
from memkit_core.errors import ConfigError, InvalidInputError, shown
from memkit_core.jsonvalues import JsonValue
from memkit_core.recall.weights import Ranking

HYBRID, KEYWORD, DENSE = "hybrid", "bm25", "dense"
"""The configurations of every run: the default ranking, BM25 alone, vectors alone."""

_EMBEDDER = "embedder"
_SWITCHES = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way to recall, under a name.

    Attributes:
        name: what it is called in tables; unique, and none of `hybrid`, `bm25` and `dense`.
        ranking: its weights.
        embedder: as in `Memory.open`; None for that of the evaluation.
    """

    name: str
    ranking: Ranking = field(default_factory=Ranking)
    embedder: object = None

    def __post_init__(self) -> None:
        """Refuse a name that says nothing or is taken by what every run has."""
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInputError(f"a configuration needs a name, got {shown(self.name)}")
        if self.name in (HYBRID, KEYWORD, DENSE):
            raise InvalidInputError(
                f"{self.name!r} is in every comparison; give the configuration another name"
            )
        if not isinstance(self.ranking, Ranking):
            raise InvalidInputError(f"{self.name}: ranking must be a Ranking, got {shown(self.ranking)}")


def checked_configurations(given: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """The configurations as given; no model is loaded.

    Raises:
        InvalidInputError: one is none, or two have one name.
        ConfigError: the embedder of one cannot be used.
        MissingDependencyError: the package of one's embedder is not installed.
    """
    seen = set[str]()
    for one in given:
        if not isinstance(one, Configuration):
            raise InvalidInputError(f"configurations must be Configuration objects, got {shown(one)}")
        if one.name in seen:
            raise InvalidInputError(f"two configurations are called {shown(one.name)}")
        if one.embedder is not None:
            check_embedder(one.embedder)
        seen.add(one.name)
    return tuple(given)


def check_embedder(given: object) -> None:
    """Refuse an embedder that nothing can be measured with, before anything is.

    Raises:
        ConfigError: it is none, has no such model, or lacks a key.
        MissingDependencyError: its package is not installed.
    """
    if isinstance(resolve_embedder(given), AbsentEmbedder):
        raise ConfigError("embedder='none' embeds nothing; name a model")


def knobs() -> Mapping[str, object]:
    """What a configuration can set, with the defaults: the fields of `Ranking`."""
    plain = Ranking()
    return {one.name: getattr(plain, one.name) for one in dataclasses.fields(Ranking)}


def parse_configuration(text: str) -> Configuration:
    """The configuration of `"name:knob=value,knob=value"`; what it does not set has its default.

    A knob is a field of `Ranking`, or `embedder` with a string as in `Memory.open`. The numbers of a
    tuple stand between slashes: `sum_weights=0.6/0.2/0.2`.

    Raises:
        InvalidInputError: it has no name, or a knob that is unknown or set twice; the message lists all.
        ConfigError: a value that the knob cannot have.
    """
    name, colon, rest = text.partition(":")
    if not colon:
        raise InvalidInputError(f"a configuration is written name:knob=value,knob=value, got {shown(text)}")
    known, chosen = knobs(), dict[str, object]()
    for part in filter(None, (part.strip() for part in rest.split(","))):
        knob, equals, value = (piece.strip() for piece in part.partition("="))
        if knob not in known and knob != _EMBEDDER:
            raise InvalidInputError(
                f"{name}: unknown knob {shown(knob)}; known are {', '.join([*known, _EMBEDDER])}"
            )
        if knob in chosen or not equals or not value:
            raise InvalidInputError(f"{name}: give each knob once, as {knob}=value, got {shown(text)}")
        chosen[knob] = value if knob == _EMBEDDER else _value(f"{name}: {knob}", value, like=known[knob])
    embedder = chosen.pop(_EMBEDDER, None)
    # The names are fields of Ranking, and each value is of the kind of its default.
    ranking = Ranking(**chosen)  # type: ignore[arg-type]
    return Configuration(name=name.strip(), ranking=ranking, embedder=embedder)


def _value(knob: str, text: str, *, like: object) -> object:
    """`text` as a value of the kind of `like`.

    Raises:
        InvalidInputError: it is none.
    """
    try:
        if isinstance(like, bool):
            return _SWITCHES[text.casefold()]
        if isinstance(like, int):
            return int(text)
        if isinstance(like, float):
            return float(text)
        if isinstance(like, tuple):
            return tuple(float(part) for part in text.split("/"))
    except (KeyError, ValueError):
        raise InvalidInputError(f"{knob} must be of the kind of {like!r}, got {shown(text)}") from None
    return text


def changed_knobs(ranking: Ranking) -> dict[str, JsonValue]:
    """The knobs that differ from the default, as JSON."""
    changed = {
        name: getattr(ranking, name) for name, plain in knobs().items() if getattr(ranking, name) != plain
    }
    return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}
