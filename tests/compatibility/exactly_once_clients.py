"""Shared by tests: writers in transactions and readers that check them."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from .copier import Options
from .java_member import java_copier

JAVA = "java"
PARTITIONS = 2
RECORDS = int(os.environ.get("TIERLOG_COPIED_RECORDS", "20000"))


class Writer:
    """Makes two topics, and puts numbered records into the first."""

    def __init__(
        self, bootstrap: str, topics: tuple[str, str], partitions: int = PARTITIONS
    ) -> None:
        client, admins = import_module("confluent_kafka"), import_module("confluent_kafka.admin")
        admin = admins.AdminClient({"bootstrap.servers": bootstrap})
        made = admin.create_topics([admins.NewTopic(each, partitions) for each in topics])
        for each in made.values():
            each.result()
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}
        self._producer = client.Producer({**settings, "queue.buffering.max.messages": RECORDS})
        self._topic = topics[0]
        self._partitions = partitions
        self._written = 0

    def write(self, up_to: int) -> None:
        """All records below a number."""
        for number in range(self._written, up_to):
            self._producer.produce(self._topic, str(number), partition=number % self._partitions)
        assert self._producer.flush(120) == 0
        self._written = up_to


class Reader:
    """Reads what is committed, as it comes."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
        client = import_module("confluent_kafka")
        self._consumer = client.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        places = [client.TopicPartition(topic, number, 0) for number in range(partitions)]
        self._consumer.assign(places)
        self.values = [list[int]() for _ in range(partitions)]

    def read(self, timeout_s: float, *, tolerant: bool = False) -> int:
        """How many there are, after another look; with `tolerant` the broker may be away."""
        for each in self._consumer.consume(1_000, timeout_s):
            if each.error() is not None and tolerant:
                continue
            assert each.error() is None, each.error()
            self.values[int(each.partition())].append(int(each.value()))
        return sum(map(len, self.values))

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def copying(options: Options, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """A copier, killed at the end."""
    command = [sys.executable, "-m", "tierlog.tests.compatibility.copier", json.dumps(options)]
    if options["client"] == JAVA:
        places = (options["bootstrap"], options["source"], options["target"])
        command = java_copier(*places, options["group"], options["batch"])
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root / ".namespace")}
    with log.open("ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def let_run(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Let it be killed at a moment that nothing has chosen."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
