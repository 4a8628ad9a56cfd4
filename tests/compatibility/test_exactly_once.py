"""Copiers of unmodified clients are killed again and again: the copy is exactly the original.

Each copies a topic in transactions that hold its positions too. It is killed at random moments and
started again, while a reader of committed records reads along. What the reader has read at the end
is every record once, in the order of the original.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from ..waiting import wait_until
from .copier import COPIERS, Options
from .java_member import java_copier

JAVA = "java"
PARTITIONS = 2
RECORDS = int(os.environ.get("TIERLOG_COPIED_RECORDS", "20000"))
KILLS = int(os.environ.get("TIERLOG_COPIER_KILLS", "6"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {
        "transaction.state.log.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    with BrokerProcess.on(tmp_path, settings) as process:
        yield process
        assert "Traceback" not in process.log.read_text()


class Writer:
    """Makes two topics, and puts numbered records into the first."""

    def __init__(self, bootstrap: str, topics: tuple[str, str]) -> None:
        client, admins = import_module("confluent_kafka"), import_module("confluent_kafka.admin")
        admin = admins.AdminClient({"bootstrap.servers": bootstrap})
        made = admin.create_topics([admins.NewTopic(each, PARTITIONS) for each in topics])
        for each in made.values():
            each.result()
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}
        self._producer = client.Producer({**settings, "queue.buffering.max.messages": RECORDS})
        self._topic = topics[0]
        self._written = 0

    def write(self, up_to: int) -> None:
        """All records below a number."""
        for number in range(self._written, up_to):
            self._producer.produce(self._topic, str(number), partition=number % PARTITIONS)
        assert self._producer.flush(120) == 0
        self._written = up_to


class Reader:
    """Reads what is committed, as it comes."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        client = import_module("confluent_kafka")
        self._consumer = client.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        places = [client.TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
        self._consumer.assign(places)
        self.values = [list[int]() for _ in range(PARTITIONS)]

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


@pytest.mark.parametrize(
    "client",
    [*sorted(COPIERS), pytest.param(JAVA, marks=pytest.mark.requires("java", "mvn"))],
)
def test_a_copy_is_exact_however_often_the_copier_is_killed(
    broker: BrokerProcess, tmp_path: Path, client: str
) -> None:
    chance = random.Random(client)
    writer = Writer(broker.bootstrap, ("source", "target"))
    options = Options(
        client=client,
        bootstrap=broker.bootstrap,
        source="source",
        target="target",
        group=f"copier-{client}",
        batch=250,
    )
    reader = Reader(broker.bootstrap, "target")
    log = tmp_path / "copier.log"
    known = 0

    def has_come(number: int, process: "subprocess.Popen[bytes]") -> bool:
        assert process.poll() is None, log.read_text()[-2_000:]
        return reader.read(0.05) > number

    for kill in range(KILLS):
        # There is always something left to copy when the copier is killed.
        writer.write(RECORDS * (kill + 1) // (KILLS + 1))
        with copying(options, log) as process:
            wait_until(partial(has_come, known, process), 120, lambda: log.read_text()[-2_000:])
            let_run(process, chance.random() * 0.3)
        known = reader.read(0.05)
    writer.write(RECORDS)
    with copying(options, log) as process:
        wait_until(partial(has_come, RECORDS - 1, process), 300, lambda: log.read_text()[-2_000:])
    reader.read(1)
    reader.close()
    for partition, values in enumerate(reader.values):
        assert values == list(range(partition, RECORDS, PARTITIONS))
