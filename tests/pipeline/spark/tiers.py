"""Tiers that brokers write and Spark reads: where one is, a broker on it, records in it."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.admin import create_topic
from tierlog.pipeline.reading.scan import plan_scan
from tierlog.pipeline.reading.scan_options import ScanError, scan_options
from tierlog.tests.waiting import wait_until

BROKER_PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "remote.log.manager.task.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "1",
}
"""Segments are copied, and leave the disk, soon after they are closed."""

TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
}


@dataclass(frozen=True)
class TierPlace:
    """Where a tier is."""

    url: str
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def properties(self) -> dict[str, str]:
        """What points a broker at it."""
        return {
            "rsm.config.url": self.url,
            **{f"rsm.config.option.{name}": text for name, text in self.storage_options.items()},
        }

    def server_properties(self, directory: Path) -> Path:
        """A file of what a broker is started with, of which a command reads the tier."""
        file = directory / "server.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in self.properties.items()))
        return file

    @property
    def arguments(self) -> list[str]:
        """What points a command at it."""
        options = [f"{name}={text}" for name, text in self.storage_options.items()]
        return ["--tier", self.url, *(word for each in options for word in ("--option", each))]

    def options(self, topic: str, **others: str) -> dict[str, str]:
        """What points `spark.read.format("tierlog")` at a topic in it."""
        storage = {f"storage.{name}": text for name, text in self.storage_options.items()}
        return {"path": self.url, "topic": topic, **storage, **others}

    def end_offsets(self, topic: str) -> dict[int, int]:
        """By partition, one past the last offset in the tier; nothing where there is none."""
        ends: dict[int, int] = {}
        try:
            for task in plan_scan(scan_options(self.options(topic))):
                ends[task.partition] = task.end_offset
        except ScanError:
            return {}
        return ends


@contextmanager
def broker_on(
    directory: Path, place: TierPlace, properties: Mapping[str, str] | None = None
) -> Generator[TierlogNode]:
    """A broker in a process of its own whose tier is there; restart it with stop() and start()."""
    stated = {**BROKER_PROPERTIES, **place.properties, **(properties or {})}
    with TierlogNode(directory / "broker", properties=stated) as node:
        yield node


def tiered_topic(
    node: TierlogNode, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic whose closed segments leave for the tier."""
    create_topic(node.bootstrap, topic, {**TOPIC_CONFIG, **(config or {})}, partitions=partitions)


def produce(
    node: TierlogNode,
    topic: str,
    counts: Mapping[int, int],
    value_of: Callable[[int, int], bytes],
    first_ms: int | None = None,
    /,
    **client: str,
) -> None:
    """Send so many records to each partition: key `k<number>`, a header `n`, the value of it.

    With `first_ms`, the timestamps of a partition begin there, a millisecond apart.
    `client` are librdkafka's settings with `_` in the place of dots: compression_type="lz4".
    """
    settings = {name.replace("_", "."): value for name, value in client.items()}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": node.bootstrap, "acks": "all", "linger.ms": 20, **settings}
    )
    for partition, count in counts.items():
        for number in range(count):
            while True:
                try:
                    producer.produce(
                        topic,
                        value_of(partition, number),
                        key=f"k{number}",
                        partition=partition,
                        # 0 is the time at which it is sent.
                        timestamp=0 if first_ms is None else first_ms + number,
                        headers=[("n", str(number).encode())],
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
    assert producer.flush(120) == 0


def wait_until_tiered(
    place: TierPlace, topic: str, at_least: Mapping[int, int], timeout_s: float = 120
) -> dict[int, int]:
    """Until the tier has the offsets below these; where it ends then, by partition."""

    def is_there() -> bool:
        ends = place.end_offsets(topic)
        return all(ends.get(partition, 0) >= end for partition, end in at_least.items())

    wait_until(is_there, timeout_s, lambda: f"{place.end_offsets(topic)} of {at_least}")
    return place.end_offsets(topic)


def wait_until_all_is_tiered(node: TierlogNode, place: TierPlace, topic: str) -> None:
    """Until each segment but the open ones is in the tier, and no copy is under way."""
    logs = node.directory / "logs"
    open_segments = {
        int(log.name.rpartition("-")[2]): max(int(each.stem) for each in log.glob("*.log"))
        for log in logs.glob(f"{topic}-*")
    }
    wait_until_tiered(place, topic, open_segments)


def wait_until_it_has_left_the_disk(node: TierlogNode, topic: str, timeout_s: float = 120) -> None:
    """Until the first segment of each partition is in the tier alone."""
    logs = node.directory / "logs"

    def is_gone() -> bool:
        return not list(live_paths(logs, f"{topic}-*/00000000000000000000.log"))

    wait_until(is_gone, timeout_s, f"the first segments of {topic} are on the disk still")
