"""`kafka-consumer-groups` and a group that it administers, of whichever protocol."""

from collections.abc import Generator
from contextlib import contextmanager

import confluent_kafka

from ..broker_process import BrokerProcess
from ..conformance.many_tools import ManyTools
from .topics import PARTITIONS, TOPIC, create_topic, produce

GROUP = "group"
PER_PARTITION = 10


def fill(broker: BrokerProcess) -> None:
    """The topic, with as many records in each partition."""
    create_topic(broker.bootstrap)
    produce(broker.bootstrap, PER_PARTITION)


@contextmanager
def member(broker: BrokerProcess, **settings: str) -> Generator[None, None, None]:
    """A consumer that has read and committed everything, and stays."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": GROUP,
            "client.id": "anna",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([TOPIC])
    read = 0
    while read < PARTITIONS * PER_PARTITION:
        read += len(consumer.consume(100, timeout=1.0))
    consumer.commit(asynchronous=False)
    yield
    consumer.close()


class Tool:
    """`kafka-consumer-groups` against one broker."""

    def __init__(self, broker: BrokerProcess, tools: ManyTools) -> None:
        self._server = ("--bootstrap-server", broker.bootstrap)
        self._tools = tools

    def says(self, *arguments: str, tool: str = "kafka-consumer-groups") -> str:
        return self._tools.run(tool, *self._server, *arguments).text

    def rows(self, *arguments: str, tool: str = "kafka-consumer-groups") -> list[dict[str, str]]:
        """The printed table, a dictionary a row."""
        lines = [line.split() for line in self.says(*arguments, tool=tool).splitlines()]
        start = next(n for n, words in enumerate(lines) if words and words[0] in {"GROUP", "TOPIC"})
        header = lines[start]
        return [
            dict(zip(header, row, strict=False))
            for row in lines[start + 1 :]
            if len(row) >= len(header) and row[0] in {GROUP, TOPIC}
        ]

    def reset(self, *arguments: str) -> dict[int, int]:
        """New offsets by partition, as the tool prints them."""
        rows = self.rows("--reset-offsets", "--group", GROUP, *arguments)
        assert {row["TOPIC"] for row in rows} <= {TOPIC}
        return {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in rows}


def committed(broker: BrokerProcess) -> dict[int, int]:
    """What is committed for the group, as another client reads it."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP}
    consumer = confluent_kafka.Consumer(settings)
    everything = [confluent_kafka.TopicPartition(TOPIC, part) for part in range(PARTITIONS)]
    offsets = {each.partition: each.offset for each in consumer.committed(everything, timeout=30)}
    consumer.close()
    return {partition: offset for partition, offset in offsets.items() if offset >= 0}


def everywhere(offset: int) -> dict[int, int]:
    return dict.fromkeys(range(PARTITIONS), offset)
