"""Which size of chunk answers a question."""

from __future__ import annotations

import re

from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.ports import Level

_LONG_QUERY = 30
# Of one thing: a name, a time, a place, a number.
_ONE_THING = re.compile(
    r"\b(who|whose|whom|when|where|which|how (many|much|long|old|often|far|big|tall|late|early))\b"
    r"|谁|何时|什么时候|几点|哪|多少|多久|几[个次天年月岁]",
    re.IGNORECASE,
)
# Of how things hang together.
_CONNECTIONS = re.compile(
    r"\b(why|how|explain|describe|summari[sz]e|summary|overview|compare|comparison|differences?|relate[sd]?|discuss|"
    r"everything|tell me (more )?about)\b"
    r"|为什么|为何|怎么|怎样|如何|总结|概述|概括|比较|区别|解释|介绍|说明|描述|讲讲",
    re.IGNORECASE,
)


def level_for(query: str) -> Level:
    """The size of chunk that answers `query`, by a rule of thumb of ours that was not tuned on data.

    - One that asks for one thing (who, when, where, which, how many, 谁, 何时, 哪, 多少): `SMALL`.
    - One that asks how things hang together (why, how, explain, compare, summarise, 为什么, 如何, 总结):
      `LARGE`. Of both, the word that stands first decides.
    - Any other that is longer than 30 tokens by `approximate_tokens`: `LARGE`; else `MEDIUM`.
    """
    one_thing, connections = _ONE_THING.search(query), _CONNECTIONS.search(query)
    if one_thing and (connections is None or one_thing.start() <= connections.start()):
        return Level.SMALL
    if connections or approximate_tokens(query) > _LONG_QUERY:
        return Level.LARGE
    return Level.MEDIUM
