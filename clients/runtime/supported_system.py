"""What is said on a system where tierlog cannot run, before anything is imported that it lacks."""

import sys

_MESSAGE = "tierlog runs on Linux and macOS: on Windows, install and run it in WSL"


def refusal() -> str | None:
    """Why tierlog cannot run on this system, and what to do; None if it can."""
    return _MESSAGE if sys.platform == "win32" else None
