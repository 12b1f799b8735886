"""What `import langchain_memkit` says when LangChain is missing or too old."""

import pytest

import langchain_memkit
from langchain_memkit._floor import version_problem

_REPORT = """
try:
    import langchain_memkit
except ImportError as error:
    from memkit_core import MissingDependencyError
    assert isinstance(error, MissingDependencyError)
    print(error)
"""


def test_without_langchain_the_error_ends_with_the_command(python):
    """The import raises MissingDependencyError with the pip command of the real distribution."""
    done = python("import sys; sys.modules['langchain_core'] = None\n" + _REPORT)
    assert done.stdout.strip() == (
        "langchain-core is not installed. Run: pip install 'memkit-llm[langchain]'"
    ), done.stderr


def test_an_old_langchain_is_named(python):
    """An extra cannot stop an older langchain-core; the import names the version found and the command."""
    done = python("import langchain_core.version as v; v.VERSION = '0.3.80'\n" + _REPORT)
    assert "1.4.0 or newer (found 0.3.80)" in done.stdout, done.stderr
    assert done.stdout.strip().endswith("pip install 'memkit-llm[langchain]'")


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("1.4.0", True),
        ("1.4", True),
        ("1.10.2", True),
        ("1.8.3rc1", True),
        ("2.0.0", True),
        ("1.3.9", False),
        ("0.99.0", False),
    ],
)
def test_versions_compare_as_numbers(version, fits):
    """1.10 is newer than 1.4."""
    assert (version_problem(version) is None) == fits


def test_importing_does_no_work(python):
    """E4: the import sets up no logging, opens nothing and starts no thread."""
    done = python(
        "import logging, threading, langchain_memkit\n"
        "assert not logging.getLogger('memkit.langchain').handlers and not logging.root.handlers\n"
        "assert threading.active_count() == 1\n"
        "print(langchain_memkit.__all__)"
    )
    assert done.stdout.strip() == str(langchain_memkit.__all__), done.stderr


def test_without_langchain_itself_only_the_middleware_is_missing(python):
    """What needs langchain-core alone imports; the middleware says which extra brings `langchain`."""
    code = """
import sys
sys.modules['langchain'] = None
import langchain_memkit
from langchain_memkit import MemkitChatMessageHistory, working_memory_tools
try:
    langchain_memkit.MemkitMiddleware
except ImportError as error:
    print(error)
try:
    langchain_memkit.Unknown
except AttributeError:
    print("unknown")
"""
    done = python(code)
    assert done.stdout.splitlines() == [
        "langchain 1.5.0 or newer is not installed. Run: pip install 'memkit-llm[agents]'",
        "unknown",
    ], done.stderr
