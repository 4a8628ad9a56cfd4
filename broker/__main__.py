"""Where the `tierlog` command begins: it looks at the clock before it imports what takes time."""

import sys
from collections.abc import Sequence

from ..clients.environment import SystemEnvironment


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    started_ms = SystemEnvironment().wall_clock_ms()
    # Imported here so that the time it takes is part of the start that is told to the user.
    from .command_line import run

    return run(arguments, started_ms)


if __name__ == "__main__":
    sys.exit(main())
