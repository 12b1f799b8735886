"""Which size of chunk answers a question."""

from __future__ import annotations

import re

from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.ports import Level

_LOOK_UP = 4
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
    """The size of chunk that answers `query`, by its words and its length.

    - It asks for one thing (who, when, where, which, how many, 谁, 何时, 哪, 多少): `MEDIUM`.
    - It asks how things hang together (why, how, explain, compare, summarise, 为什么, 如何, 总结): `LARGE`. Of
      both, the word that stands first decides.
    - It is a bare term to look up, of at most 4 tokens by `approximate_tokens`: `SMALL`.
    - Any other: `LARGE`. A blank one, beside a vector: `MEDIUM`.

    Small chunks are rare here because of what was measured, with chunks of 256, 512 and 1024 characters at
    about equal tokens (the first 20, 10 and 5): they found .74, .79 and .79 of the evidence of LoCoMo (760
    questions) and .25, .34 and .41 of QMSum (134), and no kind of question did best with the small ones.
    """
    if not query.strip():
        return Level.MEDIUM
    one_thing, connections = _ONE_THING.search(query), _CONNECTIONS.search(query)
    if one_thing and (connections is None or one_thing.start() <= connections.start()):
        return Level.MEDIUM
    if connections is None and approximate_tokens(query) <= _LOOK_UP:
        return Level.SMALL
    return Level.LARGE
