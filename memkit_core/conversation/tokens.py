"""How much of a model's context a text takes, when the model's own tokenizer is not at hand."""

from __future__ import annotations

import math
import re

from memkit_core.models import Message

# Han, kana, Hangul and the wide forms: about one token a character in the tokenizers of today's
# models, where Latin text takes one for every four characters. A text, which `re` compiles on first
# use and keeps: importing memkit should be quick.
_WIDE = (
    r"[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_OTHER = r"[^\x00-\u024f]"
MESSAGE_OVERHEAD = 4
"""Tokens that a chat API adds to each message for its role and separators."""


def approximate_tokens(text: str) -> int:
    """An estimate that is never 0 for a non-empty text: 1 a CJK character, 1/4 a Latin one, 1/2 else."""
    wide = len(re.findall(_WIDE, text))
    other = len(re.findall(_OTHER, text)) - wide
    narrow = len(text) - wide - other
    return math.ceil(wide + other / 2 + narrow / 4)


def message_text(message: Message) -> str:
    """All of a message that is charged for: its text and the calls it makes."""
    return "".join([message.text, *(call.name + call.arguments for call in message.tool_calls)])
