"""One document over HTTP, within bounds of time and size: the keys that verify tokens.

No redirect is followed and no proxy used: a file allows one address, and no other one is asked.
"""

import asyncio
import io
import ssl
from http.client import HTTPException, HTTPResponse
from typing import cast
from urllib.parse import urlsplit

from .tls import trusting_context

DOCUMENT_BYTES_MAX = 512 * 1024
"""The longest response, with its header; jose4j's bound for the document."""
TIMEOUT_S = 20.0
"""For the whole of it; jose4j's bounds are 20 s for the connection and for each read."""
_OK = 200
_PORTS = {"http": 80, "https": 443}


class GetError(Exception):
    """The document did not come; the text says why."""


class HttpDocument:
    """A document at an address, `http:` or `https:`."""

    def __init__(self, url: str, trusted_path: str = "", trusted_text: str = "") -> None:
        """Both `trusted` are certificates in PEM that vouch for the server; without any, the
        system's do. Raises GetError if they cannot be used.
        """
        self._url = url
        self._context: ssl.SSLContext | None = None
        if url.startswith("https:"):
            self._context = _context(trusted_path, trusted_text)

    async def get(self, timeout_s: float = TIMEOUT_S) -> bytes:
        """Ask for it. Raises GetError."""
        try:
            async with asyncio.timeout(timeout_s):
                return _document(await _response(self._url, self._context))
        except TimeoutError:
            raise GetError(f"it did not answer within {timeout_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise GetError(f"its certificate is not accepted ({error.verify_message})") from None
        except OSError as error:
            raise GetError(error.strerror or str(error)) from None


def _context(trusted_path: str, trusted_text: str) -> ssl.SSLContext:
    try:
        return trusting_context(trusted_path, trusted_text)
    except (OSError, ValueError):
        where = trusted_path or "the text of its trust store"
        raise GetError(f"{where} holds no certificates that can be used") from None


async def _response(url: str, context: ssl.SSLContext | None) -> bytes:
    parts = urlsplit(url)
    host = parts.hostname or ""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    reader, writer = await asyncio.open_connection(
        host, parts.port or _PORTS[parts.scheme], ssl=context
    )
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n"
            "User-Agent: tierlog\r\nConnection: close\r\n\r\n".encode("ascii")
        )
        response = bytearray()
        # Until the end, which a server announces by closing.
        while block := await reader.read(1 << 16):
            response += block
            if len(response) > DOCUMENT_BYTES_MAX:
                raise GetError(f"its answer is longer than {DOCUMENT_BYTES_MAX} bytes")
        return bytes(response)
    finally:
        # Nothing more is of interest, not even the other side's goodbye.
        writer.transport.abort()


class _Received:
    """What the standard library's parser takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        """The bytes to parse."""
        return io.BytesIO(self._data)


def _document(data: bytes) -> bytes:
    response = HTTPResponse(cast("ssl.SSLSocket", _Received(data)))
    try:
        response.begin()
        if response.status != _OK:
            raise GetError(f"its answer has status {response.status}")
        return response.read()
    except (HTTPException, ValueError, OverflowError):
        # The last one is for a length of no size that exists.
        raise GetError("its answer is malformed or cut off") from None
