"""The entry point of the `tierlog` command.

Reads the clock before the slow imports. Until the broker is up, Ctrl-C and SIGTERM end the process
at once, even during a long recovery: a kill does no harm at any step of a start, and no client has
been served yet.
"""

import os

try:
    import signal
    import sys
    from collections.abc import Sequence
    from types import FrameType
    from typing import NoReturn
except KeyboardInterrupt:
    # No signal handler is set yet.
    os._exit(0)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and end the process with its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from ..clients.supported_system import refusal

    sentence = refusal()
    if sentence is not None:
        sys.exit(f"tierlog: {sentence}")
    from ..clients.environment import SystemEnvironment

    started_ms = SystemEnvironment().wall_clock_ms()
    # Imported here so that the startup time printed includes this import.
    from .command_line import run

    code = run(arguments, started_ms)
    # Everything is stopped, except perhaps a thread that waits for a remote tier. A normal exit
    # would wait for it, for minutes if the tier does not respond.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
