"""`memkit demo`: remember in one process, answer in another, through LangChain and LlamaIndex."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from memkit_core import Memory, Message, Role, Scope
from memkit_core.cli.demo_screen import Screen
from memkit_core.evaluation import Dataset, read_dataset

USER = "mara"
DATA = Path(__file__).parent / "demo_data"
FILE_NAME = "memkit-demo.db"


def demo(
    folder: Annotated[Path, typer.Option("--dir", help="The folder in which the memory is kept.")] = Path(
        "demo-data"
    ),
) -> None:
    """Remember conversations, then answer from them in a new process."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE_NAME
    screen = Screen()
    screen.title("Step 1: this process remembers")
    dataset = read_dataset(DATA)
    remember(file, dataset)
    turns = dataset.conversations[USER]
    sessions = {turn.session_id for turn in turns}
    screen.note(f"{len(turns)} turns of {len(sessions)} sessions, 2025, are now in {file}.")
    screen.title("Step 2: a new process answers from that file")
    sys.stdout.flush()
    code = subprocess.run(  # noqa: S603 - our own module and a path, no shell
        [sys.executable, "-m", "memkit_core.cli.demo_answers", str(file)], check=False
    ).returncode
    if code:
        raise typer.Exit(code)
    screen.title("Now you")
    screen.command(f'{_myself()} recall "Where does the book club meet?" --user {USER} --db {file}')


def _myself() -> str:
    """How to call this command again: by its name where the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    if shutil.which(called.name) or not called.exists():
        return called.name
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)


def remember(file: Path, dataset: Dataset) -> None:
    """Put the demo's conversation into `file`, and nothing else: what an earlier demo left is deleted."""
    with Memory.open(file) as memory:
        memory.delete(everything=True)
        turns = dataset.conversations[USER]
        for session, said in itertools.groupby(turns, key=lambda turn: turn.session_id):
            messages = [
                Message(
                    id=turn.turn_id,
                    role=turn.role or Role.USER,
                    speaker=turn.speaker,
                    text=turn.said,
                    created_at=turn.timestamp,
                )
                for turn in said
            ]
            memory.sessions.append(messages, scope=Scope.session(session, user=USER))
        memory.flush()
