"""The part of HTTP/1.1 that a proxy needs: where a message's head ends, how its body is framed.

Bodies are passed on as they arrive, chunk by chunk with their framing, and their bytes are counted.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

HEAD_MAX = 64 << 10
_PIECE = 256 << 10


class BrokenMessageError(Exception):
    """The other side does not speak HTTP/1.1, or stopped in the middle of a message."""


@dataclass
class Head:
    """The first line and the header fields of a message; field names are case-insensitive."""

    first_line: str
    fields: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def get(self, name: str) -> str:
        """A field's value in lower case; empty if there is none."""
        return next((value.lower() for key, value in self.fields if key.lower() == name), "")

    def without(self, name: str) -> "Head":
        kept = [(key, value) for key, value in self.fields if key.lower() != name]
        return Head(self.first_line, kept)

    @property
    def status(self) -> int:
        """The status code of a response."""
        return int(self.first_line.split(" ", 2)[1])

    @property
    def wants_close(self) -> bool:
        return "close" in self.get("connection") or "HTTP/1.0" in self.first_line

    def encoded(self) -> bytes:
        lines = [self.first_line, *(f"{name}: {value}" for name, value in self.fields)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next message's head; None if the other side has closed the connection."""
    try:
        text = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BrokenMessageError("A head ended in the middle.") from error
        return None
    first_line, *lines = text.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    return Head(first_line, [(name, value.strip()) for name, _, value in pairs])


async def body_pieces(
    reader: asyncio.StreamReader, head: Head, *, until_close: bool
) -> AsyncIterator[tuple[bytes, int]]:
    """The pieces of a body, with its framing, and how many bytes of each piece are content."""
    if "chunked" in head.get("transfer-encoding"):
        async for chunk in _chunks(reader):
            yield chunk
        return
    stated = head.get("content-length")
    if not stated and not until_close:
        return
    left = int(stated) if stated else None
    while left is None or left > 0:
        piece = await reader.read(_PIECE if left is None else min(_PIECE, left))
        if not piece:
            if left is None:
                return
            raise BrokenMessageError("A body ended in the middle.")
        left = None if left is None else left - len(piece)
        yield piece, len(piece)


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, int]]:
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        if size == 0:
            trailer = line
            while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
                trailer += line
            yield trailer + line, 0
            return
        yield line + await reader.readexactly(size + 2), size
