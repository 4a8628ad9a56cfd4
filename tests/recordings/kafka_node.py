"""The Kafka that a story of conformance asks: played from its recording, live, or recorded.

A story of conformance asks Kafka and our broker the same. It gets its Kafka from
`kafka_node`, and `--kafka` says what that is:

- `recorded` (if nothing is said): a server in this process that has Kafka's answers from the text
  `recorded/<test file>.txt`. A request that the text does not have fails the test.
- `live`: a real Kafka, which proves that the text is still true (`make test-kafka`).
- `record`: a real Kafka behind a proxy that writes the text (`make record`).

The Kafka of a test without the mark `recorded` is live, whatever is said. A story needs no line of
code for it: the server and the proxy speak Kafka's protocol on a port.
`transcript.py` describes the text.
"""

import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from tierlog.bench.harness.processes.kafka_peer import KafkaNode

from . import run
from .player import Player
from .recorder import Recorder
from .sections import running
from .server import Server

_BROKER, _CONTROLLER = "PORT", "CONTROLLER_PORT"
"""The listeners, by the names of their ports in the text."""


class Kafka(Protocol):
    """A Kafka on ports of 127.0.0.1, which can be started and stopped more than once."""

    @property
    def port(self) -> int: ...

    @property
    def controller_port(self) -> int: ...

    @property
    def bootstrap(self) -> str: ...

    def start(self) -> float: ...

    def stop(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def kafka_node(
    directory: Path,
    *,
    properties: Mapping[str, str],
    tiered: bool = False,
    heap: str = "512m",
) -> Kafka:
    """A combined node of Kafka for the test file that is running, as `--kafka` says."""
    if run.mode() == run.RECORDED:
        return PlayedKafka(directory)
    node = KafkaNode(directory, properties=properties, tiered=tiered, heap=heap)
    return node if run.mode() == run.LIVE else RecordedKafka(node)


class _Served:
    """What a player and a recorder have in common: a server before each listener."""

    def __init__(self, serve: Callable[[str, socket.socket], None]) -> None:
        self._servers = {name: Server(partial(serve, name)) for name in (_BROKER, _CONTROLLER)}
        self.ports = {name: server.port for name, server in self._servers.items()}

    @property
    def port(self) -> int:
        return self.ports[_BROKER]

    @property
    def controller_port(self) -> int:
        return self.ports[_CONTROLLER]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> float:
        for server in self._servers.values():
            server.start()
        return 0.0

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class PlayedKafka(_Served):
    """Kafka's answers from the recording of the test file that is running."""

    def __init__(self, directory: Path) -> None:
        super().__init__(self._serve)
        recording = run.recording(running().test_file)
        self._player = Player(recording, self.ports, directory)
        run.watch(self._player)

    def _serve(self, _: str, connection: socket.socket) -> None:
        self._player.serve(connection)


class RecordedKafka(_Served):
    """A live Kafka, whose answers become the recording of the test file that is running."""

    def __init__(self, node: KafkaNode) -> None:
        super().__init__(self._serve)
        self._node = node
        behind = {_BROKER: node.port, _CONTROLLER: node.controller_port}
        text = run.recorded_text(running().test_file)
        self._recorder = Recorder(text, behind, self.ports, node.directory)

    def _serve(self, port: str, connection: socket.socket) -> None:
        self._recorder.serve(port, connection)

    def start(self) -> float:
        took = self._node.start()
        super().start()
        return took

    def stop(self) -> None:
        super().stop()
        self._node.stop()
