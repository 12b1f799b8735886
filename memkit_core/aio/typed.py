"""The awaited forms of `memory.profiles`, `memory.episodes` and `memory.skills`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memkit_core.aio.hops import Hops
from memkit_core.filters import FilterLike
from memkit_core.live import Live
from memkit_core.scope import Scope
from memkit_core.times import TimeLike
from memkit_core.typed import Episode, Episodes, Profile, Profiles, Skill, Skills, Typed


class AsyncProfiles(Live):
    """The verbs of `memory.profiles`, awaited; see `Profiles`."""

    def __init__(self, profiles: Profiles, hops: Hops) -> None:
        """Call `profiles` in worker threads."""
        self._profiles = profiles
        self._hops = hops

    async def add(
        self,
        profile: Profile,
        *,
        scope: Scope,
        tags: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
        importance: float | None = None,
        expires_at: TimeLike | None = None,
        valid_from: TimeLike | None = None,
        source: str | None = None,
        confidence: float | None = None,
    ) -> Typed[Profile]:
        """See `Profiles.add`."""
        return await self._hops.run(
            self._profiles.add, profile, scope=scope, tags=tags, metadata=metadata, importance=importance,
            expires_at=expires_at, valid_from=valid_from, source=source, confidence=confidence,
        )  # fmt: skip

    async def get(self, key: str, *, scope: Scope, as_of: TimeLike | None = None) -> Typed[Profile] | None:
        """See `Profiles.get`."""
        return await self._hops.run(self._profiles.get, key, scope=scope, as_of=as_of)

    async def search(
        self,
        query: str,
        *,
        scope: Scope | Sequence[Scope],
        top_k: int = 10,
        filters: FilterLike | None = None,
        as_of: TimeLike | None = None,
    ) -> list[Typed[Profile]]:
        """See `Profiles.search`."""
        return await self._hops.run(
            self._profiles.search, query, scope=scope, top_k=top_k, filters=filters, as_of=as_of
        )


class AsyncEpisodes(Live):
    """The verbs of `memory.episodes`, awaited; see `Episodes`."""

    def __init__(self, episodes: Episodes, hops: Hops) -> None:
        """Call `episodes` in worker threads."""
        self._episodes = episodes
        self._hops = hops

    async def add(
        self,
        episode: Episode,
        *,
        scope: Scope,
        tags: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
        importance: float | None = None,
        expires_at: TimeLike | None = None,
        source: str | None = None,
        confidence: float | None = None,
        source_message_ids: Sequence[str] = (),
    ) -> Typed[Episode]:
        """See `Episodes.add`."""
        return await self._hops.run(
            self._episodes.add, episode, scope=scope, tags=tags, metadata=metadata, importance=importance,
            expires_at=expires_at, source=source, confidence=confidence,
            source_message_ids=source_message_ids,
        )  # fmt: skip

    async def get(self, id: str, *, scope: Scope) -> Typed[Episode] | None:  # noqa: A002 - the word every reader expects
        """See `Episodes.get`."""
        return await self._hops.run(self._episodes.get, id, scope=scope)

    async def search(
        self,
        query: str,
        *,
        scope: Scope | Sequence[Scope],
        top_k: int = 10,
        filters: FilterLike | None = None,
        as_of: TimeLike | None = None,
    ) -> list[Typed[Episode]]:
        """See `Episodes.search`."""
        return await self._hops.run(
            self._episodes.search, query, scope=scope, top_k=top_k, filters=filters, as_of=as_of
        )


class AsyncSkills(Live):
    """The verbs of `memory.skills`, awaited; see `Skills`."""

    def __init__(self, skills: Skills, hops: Hops) -> None:
        """Call `skills` in worker threads."""
        self._skills = skills
        self._hops = hops

    async def add(
        self,
        skill: Skill,
        *,
        scope: Scope,
        tags: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
        importance: float | None = None,
        expires_at: TimeLike | None = None,
        source: str | None = None,
        confidence: float | None = None,
        source_message_ids: Sequence[str] = (),
    ) -> Typed[Skill]:
        """See `Skills.add`."""
        return await self._hops.run(
            self._skills.add, skill, scope=scope, tags=tags, metadata=metadata, importance=importance,
            expires_at=expires_at, source=source, confidence=confidence,
            source_message_ids=source_message_ids,
        )  # fmt: skip

    async def get(self, id: str, *, scope: Scope) -> Typed[Skill] | None:  # noqa: A002 - the word every reader expects
        """See `Skills.get`."""
        return await self._hops.run(self._skills.get, id, scope=scope)

    async def search(
        self,
        query: str,
        *,
        scope: Scope | Sequence[Scope],
        top_k: int = 10,
        filters: FilterLike | None = None,
        as_of: TimeLike | None = None,
    ) -> list[Typed[Skill]]:
        """See `Skills.search`."""
        return await self._hops.run(
            self._skills.search, query, scope=scope, top_k=top_k, filters=filters, as_of=as_of
        )
