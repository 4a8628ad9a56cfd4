"""An endpoint of keys for tests: a small HTTP server whose answers a test changes."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def in_chunks(body: bytes) -> bytes:
    middle = len(body) // 2
    chunks = (b"%x\r\n%s\r\n" % (len(each), each) for each in (body[:middle], body[middle:]))
    return (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\n\r\n"
    )


class KeyServer:
    """Answers each request with `answer`; an empty one is never sent."""

    def __init__(self) -> None:
        self.answer = b""
        self.requests: list[bytes] = []
        self.tasks: list[asyncio.Task[object]] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        # A source that stops, or refuses the certificate, leaves in the middle.
        with suppress(asyncio.IncompleteReadError, OSError):
            try:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                if self.answer:
                    writer.write(self.answer)
                    await writer.drain()
                else:
                    await reader.read()
            finally:
                writer.close()
                await writer.wait_closed()

    def url(self, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}/keys?tenant=secret"


@asynccontextmanager
async def key_server(context: ssl.SSLContext | None = None) -> AsyncGenerator[KeyServer]:
    one = KeyServer()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0, ssl=context)
    one.port = server.sockets[0].getsockname()[1]
    async with server:
        yield one
        await asyncio.gather(*one.tasks)
