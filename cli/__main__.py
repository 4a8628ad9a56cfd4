"""The entry point of the `tierlog` command.

Listens to signals before the slow imports, and reads the clock. Until the broker is up, what stops
it ends the process at once, even during a long recovery: a kill does no harm at any step of a
start, and no client has been served yet.
"""

import os

try:
    import signal
    import sys
    from collections.abc import Sequence
    from contextlib import suppress
    from types import FrameType
    from typing import NoReturn

    from ..clients.runtime.stop_signals import stop_signals

    def _leave(number: int, _frame: FrameType | None) -> None:
        # A broker that is stopped has done what it should; any other command has not.
        os._exit(0 if sys.argv[1:2] == ["serve"] else 128 + number)

    # Here and not in `main`, which the script of the command calls only after some work of its own.
    for _number in stop_signals():
        signal.signal(_number, _leave)
except KeyboardInterrupt:
    # No signal handler is set yet.
    os._exit(0)

_COMPLETION_S = 3.0
"""How long a shell waits for candidates."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and end the process with its exit code."""
    from ..clients.runtime.supported_system import refusal

    message = refusal()
    if message is not None:
        sys.exit(f"tierlog: {message}")
    if sys.argv[1:3] == ["completion", "--candidates"]:
        # No timeout of a client covers all of it: one of many addresses, or a name to resolve.
        signal.signal(signal.SIGALRM, _leave)
        signal.setitimer(signal.ITIMER_REAL, _COMPLETION_S)
    from ..clients.runtime.environment import SystemEnvironment

    started_ms = SystemEnvironment().wall_clock_ms()
    # Imported here so that the startup time printed includes this import.
    from .command_line import run

    code = run(arguments, started_ms)
    # Everything is stopped, except perhaps a thread that waits for a remote tier. A normal exit
    # would wait for it, for minutes if the tier does not respond.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            # What could not be written is kept, and would fail here again.
            with suppress(OSError):
                stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
