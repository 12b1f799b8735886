"""Memories with a shape: profiles, episodes and skills (spec A2).

Each is a record like any other: recalled, superseded, promoted, exported and deleted as such. Its
value is JSON in the record's metadata under the name of its kind, so filters reach into it
(`metadata.episode.topic`), and its `content` is a rendering that recall can find:

| kind | type | content, a line each |
|---|---|---|
| `Profile` | `profile`, with its key | the key; `name: value` for each field, `outer.inner` for nested ones |
| `Episode` | `event`, with `occurred_at` | the summary; `Topic: …`; `Outcome: …`; `Insight: …` for each |
| `Skill` | `skill` | the task; `1. …` for each step; `Example: …` for each |
"""

from memkit_core.typed.rooms import Episodes, Profiles, Skills, Typed
from memkit_core.typed.values import Episode, Profile, Skill

__all__ = ["Episode", "Episodes", "Profile", "Profiles", "Skill", "Skills", "Typed"]
