"""Refuses, in words, to run without LangChain or with one that is too old.

The adapters are always installed with memkit, so only their import can tell that the extra is
missing; and an extra does not stop an older langchain-core that something else installed.
"""

from __future__ import annotations

import re

from memkit_core import MissingDependencyError

_OLDEST = (1, 4)

try:
    from langchain_core.version import VERSION
except ModuleNotFoundError as error:
    raise MissingDependencyError("langchain-core", extra="langchain") from error


def version_problem(version: str) -> str | None:
    """What is wrong with this version of langchain-core, None when it is new enough."""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found >= _OLDEST:
        return None
    return f"langchain-core 1.4.0 or newer (found {version})"


if _problem := version_problem(VERSION):
    raise MissingDependencyError(_problem, extra="langchain")
