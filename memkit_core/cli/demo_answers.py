"""The second process of `memkit demo`: opens the file that the first one left, and answers from it."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memkit_core import MemkitError, Memory, MissingDependencyError, Scope
from memkit_core.cli.demo import DATA, USER
from memkit_core.cli.demo_screen import STAND_IN, Recalled, Screen, real_model
from memkit_core.cli.output import drop_stdout, one_line, use_utf8
from memkit_core.evaluation import read_dataset

_TOP_K = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One framework's share.

    Attributes:
        module: its `answer(memory, *, user, questions, screen)` does the work. It is named and not
            imported, because the core must run, and answer, without any framework.
        questions: ids of the shipped questions.
    """

    title: str
    module: str
    questions: tuple[str, ...]


_PARTS = (
    _Part(
        title="LangChain: RunnableWithMessageHistory with a MemkitRetriever",
        module="langchain_memkit.demo",
        questions=("mara-q02", "mara-q17", "mara-q23"),
    ),
    _Part(
        title="LlamaIndex: SimpleChatEngine with MemkitMemory",
        module="llamaindex_memkit.demo",
        questions=("mara-q06", "mara-q19", "mara-q15"),
    ),
)


def main(file: str) -> int:
    """Answer the demo's questions from `file`; returns the exit code."""
    use_utf8()
    screen = Screen()
    shipped = {question.question_id: question.question for question in read_dataset(DATA).questions}
    try:
        began = time.perf_counter()
        with Memory.open(Path(file)) as memory:
            memory.recall("warm up", scope=Scope.user(USER), include_messages=True)
            seconds = time.perf_counter() - began
            screen.note(
                f"Opened in {seconds:.2f} s, embedder and index loaded and the first recall included."
            )
            model = real_model()
            screen.note(f"Answers come from {model}." if model else f"No OPENAI_API_KEY is set: {STAND_IN}.")
            for part in _PARTS:
                _show(part, memory, [shipped[name] for name in part.questions], screen)
    except BrokenPipeError:
        drop_stdout()
        return 1
    except MemkitError as error:
        sys.stderr.write(f"memkit: {one_line(str(error))}\n")
        return 1
    return 0


def _show(part: _Part, memory: Memory, questions: Sequence[str], screen: Screen) -> None:
    """Let the framework answer; where it is not installed, say how to get it and only recall."""
    user = Scope.user(USER)
    screen.title(part.title)
    try:
        adapter = importlib.import_module(part.module)
        adapter.answer(memory, user=user, questions=questions, screen=screen)
    except MissingDependencyError as error:
        screen.note(f"{error}\nWithout it, this is what memkit itself recalls:")
        for question in questions:
            _recall_only(memory, user, question, screen)


def _recall_only(memory: Memory, user: Scope, question: str, screen: Screen) -> None:
    screen.question(question)
    began = time.perf_counter()
    hits = memory.recall(question, scope=user, top_k=_TOP_K, include_messages=True)
    screen.recalled(map(Recalled.of, hits), milliseconds=(time.perf_counter() - began) * 1000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
