"""What memkit refuses, in the words of the command that was typed: `--top-k`, not `top_k`."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Of verbs whose command is called otherwise.
_VERBS = {"export_jsonl": "export", "import_jsonl": "import", "list_records": "list"}

# What a message offers to Python, and what a command line can do instead.
_ONLY_IN_PYTHON = (
    (", or give an embedding object", ""),
    (", or memory.upkeep.reembed(embedder=...) of a memory opened with embedder='none'", ""),
    (", or raise Config.busy_timeout", ""),
    (", or lower Config.disk_reserve", ""),
    (", or None for never", ""),
    (", or None", ""),
    ("give {'provider': 'openai', 'api_key': ...} or set", "set"),
    (
        "a datetime, a date, ISO 8601 text or a number of seconds or milliseconds since 1970",
        "a date or a time in ISO 8601, such as 2025-03-01 or 2025-03-01T10:00:00Z",
    ),
)


def as_command_line(message: str, options: Iterable[str]) -> str:
    """The message of an error with `options`, such as `"--top-k"`, for the arguments of these names.

    Only what stands at the beginning as the subject, and what reads `name=True` or `name='text'`, is an
    argument; the same word anywhere else, as in a path or a value, stays.
    """
    for python, typed in _ONLY_IN_PYTHON:
        message = message.replace(python, typed)
    verb, colon, rest = message.partition(": ")
    if colon and verb in _VERBS:
        message = f"{_VERBS[verb]}: {rest}"
    for option in options:
        name = option.removeprefix("--").replace("-", "_")
        message = re.sub(rf"\b{name}=True\b", option, message)
        message = re.sub(rf"\b{name}='([^' ]*)'", rf"{option} \1", message)
        # Options are repeated where an argument is a list.
        message = re.sub(rf"^(\w+: )?{name}s?(?= must | '[^']*' was )", rf"\g<1>{option}", message)
    return message
