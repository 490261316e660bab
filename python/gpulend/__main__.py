"""`python -m gpulend`: the command line."""

import sys

from gpulend.cli import main

if __name__ == "__main__":
    sys.exit(main())
