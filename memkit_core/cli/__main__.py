"""`python -m memkit_core.cli`: the command `memkit` where no script is installed."""

import sys

from memkit_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
