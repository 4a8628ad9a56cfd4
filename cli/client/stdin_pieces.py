"""Stdin in pieces, as they come: the event loop goes on while nobody types.

A pipe, a socket or a terminal is read when the loop says that there is something. A file always has
something, and no loop can watch it: it is read at once.
"""

import asyncio
import io
import sys
from collections.abc import AsyncGenerator
from typing import cast

from .address import UsageError

_PIECE_BYTES = 256 * 1024


async def stdin_pieces() -> AsyncGenerator[bytes]:
    """The pieces of stdin; an empty one is the last. Raises UsageError if it is closed."""
    if sys.stdin is None:
        raise UsageError("The standard input is closed: there is nothing to send.")
    source = cast("io.BufferedReader", sys.stdin.buffer)
    while True:
        await _readable()
        piece = source.read1(_PIECE_BYTES)
        yield piece
        if not piece:
            return


async def _readable() -> None:
    """Wait until a read of stdin does not block."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        descriptor = sys.stdin.fileno()
        loop.add_reader(descriptor, ready.set)
    except (io.UnsupportedOperation, PermissionError):
        # Bytes in memory, a file, /dev/null. What was read is sent before the next piece.
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
