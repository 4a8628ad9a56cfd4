"""Where the output of a local cluster's nodes goes: to the terminal, or to a file for each."""

import os
from collections.abc import Callable
from typing import TextIO

from ...storage.files import FileHandle, Files

KEPT_BYTES_MAX = 64 << 20
"""How much of a node's output a file keeps."""

_COLOURS = ("36", "33", "32", "35", "34", "31", "96", "93", "92", "95", "94", "91")
_OWN_NAME = "cluster"


class PrefixedOutput:
    """Writes lines, each with the name of its node; in colour if it is a terminal."""

    def __init__(self, stream: TextIO, on_closed: Callable[[], None]) -> None:
        """`on_closed` is called when nobody reads any longer, as after `| head`."""
        self._stream = stream
        self._on_closed = on_closed
        self._is_closed = False
        self._has_colour = stream.isatty() and not os.environ.get("NO_COLOR")
        self._colours: dict[str, str] = {}
        self._width = len(_OWN_NAME)

    def take(self, name: str, line: str) -> None:
        """Write a node's line."""
        self._width = max(self._width, len(name))
        prefix = f"{name:<{self._width}} |"
        if self._has_colour:
            colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
        self.say(f"{prefix} {line}")

    def say(self, text: str) -> None:
        """Write a line of the cluster's own."""
        if self._is_closed:
            return
        try:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        except OSError:
            self._is_closed = True
            self._on_closed()


class KeptOutput:
    """Appends the lines of each node to a file of its own, and the cluster's to `cluster.log`."""

    def __init__(self, directory: str, files: Files) -> None:
        self._directory = directory
        self._files = files
        self._open: dict[str, tuple[FileHandle, int]] = {}

    def take(self, name: str, line: str) -> None:
        """Keep a node's line, unless its file is full. Raises OSError."""
        handle, end = self._open.get(name) or self._opened(name)
        content = line.encode(errors="replace") + b"\n"
        if end + len(content) > KEPT_BYTES_MAX:
            return
        handle.write_at(end, content)
        self._open[name] = (handle, end + len(content))

    def say(self, text: str) -> None:
        """Keep a line of the cluster's own."""
        self.take(_OWN_NAME, text)

    def _opened(self, name: str) -> tuple[FileHandle, int]:
        handle = self._files.open(f"{self._directory}/{name}.log", create=True)
        return handle, handle.size()
