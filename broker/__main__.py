"""Where the `tierlog` command begins.

It looks at the clock before it imports what takes time, and until the broker listens to signals
itself, Ctrl-C and SIGTERM simply end the process: nothing has begun that would have to be stopped.
"""

import signal
import sys
from collections.abc import Sequence
from types import FrameType


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from ..clients.environment import SystemEnvironment

    started_ms = SystemEnvironment().wall_clock_ms()
    # Imported here so that the time it takes is part of the start that is told to the user.
    from .command_line import run

    return run(arguments, started_ms)


if __name__ == "__main__":
    sys.exit(main())
