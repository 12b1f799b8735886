"""How the demo shows questions, recalled memories and answers, and its stand-in for a chat model."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from memkit_core import ScoredRecord
from memkit_core.cli.output import one_line, stdout, visible, when
from memkit_core.plurals import plural

STAND_IN = "stand-in model, no network: repeats the best memory"

_FENCED = re.compile(r"<(turn|memory)\b([^>]*)>(.*?)</\1>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


def real_model() -> str | None:
    """The name of the OpenAI model to ask, None without a key: then the stand-in answers."""
    return os.environ.get("OPENAI_MODEL", "gpt-4o-mini") if os.environ.get("OPENAI_API_KEY") else None


def fenced_memory(text: str, *, said_at: datetime, speaker: str | None) -> str:
    """One memory for a prompt, fenced as data: no text inside can close the fence."""
    who = html.escape(speaker or "")
    return f'<turn speaker="{who}" date="{said_at:%Y-%m-%d}">{html.escape(text, quote=False)}</turn>'


def stand_in_answer(prompt: str) -> str:
    """What the stand-in says to a prompt with fenced memories: it quotes the first, which ranks best."""
    found = _FENCED.search(prompt)
    if found is None:
        return "I remember nothing about that."
    about = dict(_ATTRIBUTE.findall(found[2]))
    who = html.unescape(about.get("speaker") or "Someone")
    return f"{who} said on {about.get('date', 'an unknown day')}: “{html.unescape(found[3])}”"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """One line of what was recalled.

    Attributes:
        score: in [0, 1], orders one answer only.
        said_at: when it was said, readable.
        text: what was said, and by whom.
    """

    score: float
    said_at: str
    text: str

    @classmethod
    def of(cls, hit: ScoredRecord) -> Recalled:
        """The line of a hit."""
        return cls(score=hit.score, said_at=when(hit.record), text=hit.record.index_text)


class Screen:
    """Prints the demo on stdout, readable in 80 columns."""

    def __init__(self) -> None:
        """Print to the terminal or the pipe that stdout is now."""
        self._console = stdout()

    def title(self, text: str) -> None:
        """A heading."""
        self._console.print(f"\n=== {text}", style="bold")

    def note(self, text: str) -> None:
        """A remark."""
        self._console.print(visible(text))

    def command(self, text: str) -> None:
        """A command to paste: on one line, however narrow the terminal is."""
        self._console.print(visible(text), soft_wrap=True)

    def question(self, text: str) -> None:
        """What is asked."""
        self._console.print(f"\nQ: {visible(text)}", style="bold")

    def recalled(self, lines: Iterable[Recalled], *, milliseconds: float) -> None:
        """What was recalled, a line each, and how long it took."""
        listed = list(lines)
        self._console.print(
            f"   {len(listed)} {plural(len(listed), 'memory')} recalled in {milliseconds:.1f} ms; score, time (UTC), text:"
        )
        for line in listed:
            text = Text(f"   {line.score:.3f}  {line.said_at}  {one_line(line.text)}")
            text.truncate(self._console.width, overflow="ellipsis")
            self._console.print(text)

    def answer(self, text: str, *, model: str | None) -> None:
        """What the model made of it; `model` None stands for the stand-in."""
        self._console.print(f"A: {visible(text)}")
        self._console.print(f"   ({model or STAND_IN})", style="dim")
