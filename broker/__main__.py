"""Where the `tierlog` command begins.

It looks at the clock before it imports what takes time. Until the broker is up, Ctrl-C and SIGTERM
end the process on the spot, even in the middle of a long recovery: whatever a start does survives a
kill, and no client has been served yet.
"""

import os

try:
    import signal
    import sys
    from collections.abc import Sequence
    from types import FrameType
    from typing import NoReturn
except KeyboardInterrupt:
    # There is no handler for it yet.
    os._exit(0)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and end the process with its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from ..clients.environment import SystemEnvironment

    started_ms = SystemEnvironment().wall_clock_ms()
    # Imported here so that the time it takes is part of the start that is told to the user.
    from .command_line import run

    code = run(arguments, started_ms)
    # Everything is stopped. What may be left is a thread that waits for an answer of a remote tier;
    # leaving in the usual way would wait for it, for minutes if the tier has fallen silent.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
