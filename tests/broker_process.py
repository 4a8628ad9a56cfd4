"""A broker to test against: in this process on a real event loop, or as a process of its own."""

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

from tierlog.broker.broker import Broker
from tierlog.broker.config.config import read_config
from tierlog.clients.protocol.api import response_class
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from tierlog.clients.protocol.schema import Message

T = TypeVar("T")

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60

TEST_PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
"""Small and quick; the directory of the data comes from the test."""


class BrokerThread:
    """A broker on an event loop of its own in a thread of this process."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        stated = {**TEST_PROPERTIES, "log.dirs": str(directory), **(properties or {})}
        self._config = read_config(stated)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker")
        self.broker: Broker | None = None
        self.port = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the broker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop and wait for it."""
        return self.begin(work).result(START_TIMEOUT_S)

    async def _start(self) -> Broker:
        broker = Broker(self._config)
        await broker.start()
        return broker

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.broker = self.run(self._start())
        except BaseException:
            self._end_thread()
            raise
        listeners = self.broker.listeners
        self.port = (listeners.advertised or listeners.advertised_controllers)[0].port
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.broker is not None:
                self.run(self.broker.stop())
        finally:
            self._end_thread()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_TIMEOUT_S)
        self._loop.close()


class BrokerProcess:
    """`tierlog serve` as a user starts it."""

    def __init__(
        self, arguments: Sequence[str], directory: Path, before: Sequence[str] = ()
    ) -> None:
        """`before`: the words of a command that runs the broker's, such as `nice`."""
        root = Path(__file__).parent.parent
        path = [os.environ.get("PYTHONPATH", ""), str(root / ".namespace")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        self.log = directory / "broker.log"
        self._log_file = self.log.open("ab")
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "tierlog.cli", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            env=environment,
            cwd=directory,
        )
        self.ready_line = ""

    @classmethod
    def on(
        cls,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> Self:
        """With its data below `directory`, on a free port."""
        stated = {**TEST_PROPERTIES, "log.dirs": str(directory / "data"), **(properties or {})}
        arguments = [word for name in stated for word in ("--override", f"{name}={stated[name]}")]
        return cls(arguments, directory, before)

    @property
    def bootstrap(self) -> str:
        """The address of the ready line."""
        return self.ready_line.split(" ready on ", 1)[1].split(" ", 1)[0]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def wait_until_ready(self) -> Self:
        """Read the ready line; AssertionError with the log if the process ends instead."""
        assert self.process.stdout is not None
        self.ready_line = self.process.stdout.readline().decode().strip()
        assert " ready on " in self.ready_line, self.log.read_text()
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End it without a chance to write anything."""
        self.stop(signal.SIGKILL)

    def close(self) -> None:
        """Stop it if it runs, and let go of its files."""
        if self.process.poll() is None:
            self.stop()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log_file.close()

    def __enter__(self) -> Self:
        try:
            return self.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


class RawClient:
    """A blocking connection that sends any message in any version, and what is no message too."""

    def __init__(self, port: int, timeout_s: float = 60) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, request: Message, version: int) -> RequestHeader:
        """Send a request; the header that its answer belongs to."""
        key = type(request).api_key
        self._correlation_id += 1
        header = RequestHeader(key, version, self._correlation_id, "raw")
        self.send_frame(encode_request_header(header) + encode_bytes(request, version))
        return header

    def send_frame(self, body: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def receive_frame(self) -> bytes:
        """The next frame. Raises EOFError if the broker has closed the connection."""
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self.socket.recv(size - len(received))
            if not piece:
                raise EOFError(f"closed after {len(received)} of {size} bytes")
            received += piece
        return bytes(received)

    def receive(self, header: RequestHeader) -> Message:
        """The answer to the request of that header."""
        frame = memoryview(bytearray(self.receive_frame()))
        correlation_id, position = decode_response_header(header.api_key, header.api_version, frame)
        assert correlation_id == header.correlation_id
        message, end = decode(response_class(header.api_key), header.api_version, frame, position)
        assert end == len(frame)
        return message

    def ask(self, request: Message, version: int, expected: type[T]) -> T:
        """Send a request and wait for its answer."""
        answer = self.receive(self.send(request, version))
        assert isinstance(answer, expected)
        return answer

    def is_closed(self) -> bool:
        """Whether the broker closes the connection instead of sending anything more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
