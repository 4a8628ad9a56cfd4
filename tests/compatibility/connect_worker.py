"""A worker of Kafka Connect in a process of its own, asked and told what to do over its REST API.

`connect-standalone` is one worker that keeps its source offsets in a file and is given its
connectors when it starts; the workers of `connect-distributed` form a group, keep everything in
topics, and are given their connectors over REST.
"""

import http.client
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, TypedDict, cast

from tierlog.bench.harness.processes.kafka_peer import TOOLS, java_command
from tierlog.bench.harness.requests.probe import free_port

from ..waiting import wait_until

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 45
EXIT_CODE_ON_SIGTERM = 128 + 15
SESSION_MS = 6_000
"""The shortest that a broker accepts by default: who was killed is missed that much later."""

FLAGS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_TEXT = "org.apache.kafka.connect.storage.StringConverter"
_PROPERTIES = {
    # Plugins are found by their manifests alone; a scan of the whole class path takes seconds.
    "plugin.discovery": "service_load",
    "key.converter": _TEXT,
    "value.converter": _TEXT,
    "offset.flush.interval.ms": "500",
    "offset.flush.timeout.ms": "30000",
    "task.shutdown.graceful.timeout.ms": "30000",
    "consumer.session.timeout.ms": str(SESSION_MS),
    "consumer.heartbeat.interval.ms": "1000",
}
_NOT_NOW = {404, 409, 500, 503}
"""What a worker answers while its group rebalances, or while it has not read its topics yet."""


class _At(TypedDict):
    """Where a connector or a task is, and how it is."""

    state: str
    worker_id: str


class _Task(_At):
    id: int


class _Used(TypedDict):
    topics: list[str]


class _Position(TypedDict):
    partition: dict[str, int]
    offset: dict[str, int]


class Status(TypedDict):
    """What the REST API tells of a connector."""

    name: str
    connector: _At
    tasks: list[_Task]


class ConnectWorker:
    """One worker under its own name; its log is at `log`, in `directory`."""

    def __init__(self, tool: str, name: str, directory: Path, stated: Mapping[str, str]) -> None:
        self._tool = tool
        self.port = free_port()
        self.id = f"127.0.0.1:{self.port}"
        self.log = directory / f"{name}.log"
        self._properties = directory / f"{name}.properties"
        self._process: subprocess.Popen[bytes] | None = None
        listening = {"listeners": f"http://{self.id}"}
        write_properties(self._properties, {**_PROPERTIES, **listening, **stated})

    def start(self, connectors: Sequence[Path] = ()) -> None:
        """Start, with the connectors in those files; `wait_until_ready` waits."""
        files = [str(path) for path in (self._properties, *connectors)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                java_command(TOOLS[self._tool], *files, flags=FLAGS),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait_until_ready(self) -> None:
        """Until it has read its topics and takes part in its group."""
        wait_until(self._is_ready, START_TIMEOUT_S, self.describe)

    def _is_ready(self) -> bool:
        assert self.is_running, self.describe()
        return self._ask("GET", "/health")[0] == http.client.OK

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        """Status and content; 503 where nobody listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
            # Before its own pages are there, the server answers with one of HTML.
            is_json = response.headers.get_content_type() == "application/json"
            return response.status, json.loads(content) if is_json else content
        except (ConnectionError, http.client.HTTPException):
            return http.client.SERVICE_UNAVAILABLE, None
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: object = None) -> object:
        """Ask until the worker can say; its answer, which is no error."""
        status: int = 0
        content: object = None

        def answers() -> bool:
            nonlocal status, content
            status, content = self._ask(method, path, body)
            return status not in _NOT_NOW

        wait_until(answers, START_TIMEOUT_S, lambda: f"{path}: {content}; {self.describe()}")
        assert status < http.client.BAD_REQUEST, content
        return content

    def create(self, connector: str, config: Mapping[str, str]) -> None:
        """Create a connector, or change it."""
        self.ask("PUT", f"/connectors/{connector}/config", config)

    def status(self, connector: str) -> Status:
        """Where its tasks are, as this worker knows it."""
        return cast("Status", self.ask("GET", f"/connectors/{connector}/status"))

    def topics(self, connector: str) -> list[str]:
        """Those that the connector has read or written so far."""
        used = cast("dict[str, _Used]", self.ask("GET", f"/connectors/{connector}/topics"))
        return used[connector]["topics"]

    def positions(self, connector: str) -> dict[int, int]:
        """What is committed: of a sink by partition; a file source has one, under -1."""
        path = f"/connectors/{connector}/offsets"
        answer = cast("dict[str, list[_Position]]", self.ask("GET", path))
        return {
            each["partition"].get("kafka_partition", -1): next(iter(each["offset"].values()))
            for each in answer["offsets"]
        }

    def stop(self) -> bool:
        """Have it commit what was done, leave the group and end; whether it did.

        Its web server ends itself at the same signal, and now and then the two wait for each other.
        """
        assert self._process is not None
        self._process.terminate()
        try:
            assert self._process.wait(STOP_TIMEOUT_S) == EXIT_CODE_ON_SIGTERM, self.describe()
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """End it without a chance to commit anything."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def describe(self) -> str:
        state = "runs" if self.is_running else "ended"
        return f"{self.id} {state}: {self.log.read_text()[-4_000:]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self.kill()


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """A Java properties file, for values that need no escapes."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
