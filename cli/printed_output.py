"""The output of a command of few lines, printed when it has ended."""

import argparse
import io
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TextIO

_REFUSED = 1
_WRONG_ARGUMENTS = 2

_ONLY_PRINTING = ("info", "random-uuid", "completion")
"""Commands that are of no use without an output."""


def printed_at_its_end(
    command: Callable[[argparse.Namespace], int], parsed: argparse.Namespace
) -> int:
    """Run a command of few lines: what cannot be printed is no trouble of the disk it works on."""
    if sys.stdout is None and parsed.command in _ONLY_PRINTING:
        _print_error("The standard output is closed: send it to /dev/null instead.")
        return _WRONG_ARGUMENTS
    lines = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(lines, "utf-8", "surrogateescape", write_through=True)):
        code = command(parsed)
        printed = lines.getvalue()
    if sys.stdout is None:
        return code
    try:
        _write(sys.stdout, printed)
    except BrokenPipeError:
        # The reader of the pipe has gone, as `head` does.
        return code
    except OSError as error:
        _print_error(f"The output cannot be written: {error.strerror}.")
        return _REFUSED
    return code


def _write(output: TextIO, printed: bytes) -> None:
    if (binary := getattr(output, "buffer", None)) is not None:
        binary.write(printed)
        binary.flush()
    else:
        # A caller in Python may have a command print to a stream of text alone.
        output.write(printed.decode("utf-8", "backslashreplace"))
        output.flush()


def _print_error(message: str) -> None:
    # Without a file, `print` takes stdout.
    if sys.stderr is not None:
        print(f"tierlog: {message}", file=sys.stderr)
