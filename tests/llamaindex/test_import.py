"""What importing the adapter promises when its framework is missing or too old."""

import subprocess
import sys
import textwrap

import pytest

COMMAND = "pip install 'memkit-llm[llamaindex]'"


def run(code):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("found", ["None", "'0.14.9'", "'0.13.0.post1'"])
def test_missing_or_too_old(found):
    """Without a usable llama-index-core the import raises an error that ends with the pip command."""
    said = run(f"""
        import importlib.metadata, sys
        real = importlib.metadata.version
        def version(name):
            if name != "llama-index-core":
                return real(name)
            if {found} is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return {found}
        importlib.metadata.version = version
        from memkit_core import MissingDependencyError
        try:
            import llamaindex_memkit
        except MissingDependencyError as error:
            assert isinstance(error, ImportError)
            assert not any(name.startswith("llama_index") for name in sys.modules)
            print(error)
    """)
    assert said.strip().endswith(COMMAND)
    assert "0.14.10" in said


def test_core_does_not_bring_the_framework():
    """`import memkit_core` imports no LlamaIndex."""
    assert (
        run("import memkit_core, sys; print([n for n in sys.modules if n.startswith('llama')])").strip()
        == "[]"
    )


def test_importing_sets_nothing_up():
    """Importing the adapter adds no log handler and starts no thread."""
    code = """
        import logging, threading
        import llama_index.core.memory, llama_index.core.base.base_retriever
        handlers, threads = list(logging.root.handlers), threading.active_count()
        import llamaindex_memkit
        print(logging.root.handlers == handlers, threading.active_count() == threads)
    """
    assert run(code).split() == ["True", "True"]
