"""Records Kafka: a proxy before a real one that writes down what goes through it."""

import socket
import threading
from collections.abc import Mapping
from pathlib import Path

from . import sections
from .frames import Request, answer_frame, answer_text, framed, frames_of, read_request
from .server import shut
from .text_files import RecordedText

_CONNECT_S = 20


class Recorder:
    """The connections of one Kafka that is recorded."""

    def __init__(
        self,
        text: RecordedText,
        kafka_ports: Mapping[str, int],
        ports: Mapping[str, int],
        directory: Path,
    ) -> None:
        """`ports` are the proxy's, `kafka_ports` those behind it, by their names in the text."""
        self._text = text
        self._kafka_ports = kafka_ports
        self._names: Mapping[object, str] = {
            ("port", port): name for each in (kafka_ports, ports) for name, port in each.items()
        }
        self._values: Mapping[str, int | str] = ports
        self._directory = str(directory)

    def serve(self, port: str, connection: socket.socket) -> None:
        """Pass the frames of a connection on to a port, and back, and write them down."""
        # Kafka's rules for addresses see the client's own.
        source = (connection.getpeername()[0], 0)
        kafka = socket.create_connection(
            ("127.0.0.1", self._kafka_ports[port]), _CONNECT_S, source_address=source
        )
        kafka.settimeout(None)
        kafka.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        passage = _Passage(self, connection, kafka)
        answers = threading.Thread(target=passage.pass_answers, daemon=True)
        answers.start()
        passage.pass_requests()
        shut(kafka)
        answers.join(_CONNECT_S)
        kafka.close()

    def request(self, passage: "_Passage", frame: bytes) -> Request:
        """Write a request down."""
        read = read_request(frame, self._names)
        read = read._replace(text=read.text.replace(self._directory, "DIRECTORY"))
        self._text.add(sections.running().title, passage, ">", read.text)
        return read

    def answer(self, passage: "_Passage", frame: bytes, request: Request) -> bytes:
        """Write an answer down; the answer that the client gets, which names the proxy's port."""
        text = answer_text(frame, request, self._names)
        known = text.replace(self._directory, "DIRECTORY")
        self._text.add(sections.running().title, passage, "<", known)
        return answer_frame(text, request, self._values) if "PORT" in text else frame

    def closed(self, passage: "_Passage") -> None:
        """Write down that Kafka has closed the connection."""
        self._text.add(sections.running().title, passage, "closed", "")


class _Passage:
    """One connection of a client, and the one to Kafka that belongs to it."""

    def __init__(self, recorder: Recorder, client: socket.socket, kafka: socket.socket) -> None:
        self._recorder = recorder
        self._client = client
        self._kafka = kafka
        self._asked: dict[int, Request] = {}
        self._client_is_gone = False

    def pass_requests(self) -> None:
        for frame in frames_of(self._client):
            request = self._recorder.request(self, frame)
            self._asked[request.correlation_id] = request
            try:
                self._kafka.sendall(framed(frame))
            except OSError:
                break
        self._client_is_gone = True

    def pass_answers(self) -> None:
        for frame in frames_of(self._kafka):
            request = self._asked.pop(int.from_bytes(frame[:4], "big", signed=True))
            self._client.sendall(framed(self._recorder.answer(self, frame, request)))
        if not self._client_is_gone:
            self._recorder.closed(self)
            shut(self._client)
