"""The command `memkit`: parses, calls `Memory`, prints."""


def main() -> int:
    """Run the command line and return the exit code: 0, 1 for an error, 2 for wrong usage."""
    from memkit_core.cli.app import run

    return run()
