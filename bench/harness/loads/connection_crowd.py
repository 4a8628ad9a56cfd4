"""Opens thousands of connections from one process, and closes them.

Each sends one small request when it is connected, and counts as connected once it has a response:
the kernel accepts connections on a broker's behalf long before the broker does.
"""

import resource
import selectors
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Self, cast

from ....clients.protocol.messages.api_versions import ApiVersionsRequest
from ..measurement_error import MeasurementError
from ..requests.wire import Prepared, Wire, WireError, prepare

if TYPE_CHECKING:
    from .latencies import LatencyRecorder

_AT_ONCE = 200
"""The most connections being opened at the same time, as when many clients start together."""
_PATIENCE_S = 60.0
_RECEIVE_BYTES = 1 << 16
_NO_WAITING_AT_THE_END = struct.pack("ii", 1, 0)
_FILES_BESIDE = 200


class _Newcomer:
    """One connection until its first response."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.began = time.perf_counter()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        # Closed with a reset, as ports in TIME_WAIT would not be available to the next run.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_WAITING_AT_THE_END)
        self.socket.connect_ex(address)
        self.has_sent = False
        self._received = b""

    def ask(self, question: Prepared) -> None:
        """Send the request once connected. Raises OSError if the connection failed."""
        if error := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "not connected")
        self.socket.sendall(question.frame)
        self.has_sent = True

    def is_answered(self) -> bool:
        received = self.socket.recv(_RECEIVE_BYTES)
        if not received:
            raise OSError("the broker closed the connection")
        self._received += received
        size = int.from_bytes(self._received[:4])
        return len(self._received) >= 4 + size


class Crowd:
    """A number of open connections. Use as a context manager, which closes them."""

    def __init__(self, bootstrap: str, size: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._size = size
        self._question = prepare(ApiVersionsRequest(), 0)
        self._sockets: list[socket.socket] = []
        self._answered = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close()

    def connect(self, answers: "LatencyRecorder") -> float:
        """Open all connections; returns the seconds until the last response.

        Raises MeasurementError.
        """
        began = time.perf_counter()
        with selectors.EpollSelector() as selector:
            while self._answered < self._size:
                while len(self._sockets) < min(self._size, self._answered + _AT_ONCE):
                    newcomer = _Newcomer(self._address)
                    self._sockets.append(newcomer.socket)
                    selector.register(newcomer.socket, selectors.EVENT_WRITE, newcomer)
                ready = selector.select(_PATIENCE_S)
                if not ready:
                    raise MeasurementError(
                        f"{self._answered} of {self._size} connections had a response, and then "
                        f"none came for {_PATIENCE_S:.0f} s."
                    )
                for key, _ in ready:
                    newcomer = cast("_Newcomer", key.data)
                    if self._go_on(selector, newcomer):
                        now = time.perf_counter()
                        answers.record((now - newcomer.began) * 1000, newcomer.began - began)
        return time.perf_counter() - began

    def _go_on(self, selector: selectors.BaseSelector, newcomer: _Newcomer) -> bool:
        """Do the next step of one connection; returns whether it was the last step."""
        try:
            if not newcomer.has_sent:
                newcomer.ask(self._question)
                selector.modify(newcomer.socket, selectors.EVENT_READ, newcomer)
                return False
            if not newcomer.is_answered():
                return False
        except OSError as error:
            raise MeasurementError(
                f"Connection {self._answered + 1} of {self._size} failed: {error}."
            ) from error
        selector.unregister(newcomer.socket)
        self._answered += 1
        return True


class Bystander:
    """A client with an existing connection that sends requests while a block runs."""

    def __init__(self, bootstrap: str, question: Prepared, answers: "LatencyRecorder") -> None:
        self._wire = Wire(bootstrap)
        self._question = question
        self._answers = answers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander")
        self._failure: WireError | None = None

    def _run(self) -> None:
        began = time.perf_counter()
        while not self._stop.is_set():
            at_s = time.perf_counter() - began
            try:
                self._answers.record(self._wire.answer_ms(self._question), at_s)
            except WireError as error:
                self._failure = error
                return
            self._stop.wait(0.002)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._wire.close()

    def check(self) -> None:
        """Raise MeasurementError if a request failed."""
        if self._failure is not None:
            raise MeasurementError(str(self._failure)) from self._failure


def allow_files(count: int) -> str | None:
    """Let this process open this many files; returns the reason if that is not possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + _FILES_BESIDE
    if hard != resource.RLIM_INFINITY and hard < needed:
        return (
            f"this machine lets a process open {hard} files (ulimit -Hn), and {needed} are needed"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return None
