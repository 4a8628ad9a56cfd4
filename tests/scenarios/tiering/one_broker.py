"""One broker with a tier, and the steps and checks of which its scenarios are made.

A record is a batch, with key `k<i>` and value `v<i>` at offset i; a segment takes so many batches
as its topic says, because its time index is full then. Segments that are closed go to the tier and
leave the disk. Everything is looked at from outside: through clients, in the tier, in the broker's
directory and in its metrics.
"""

import re
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self
from urllib.request import urlopen

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import batches
from tierlog.tests import wire
from tierlog.tests.broker_process import RawClient
from tierlog.tests.scenarios.tiering.tier_stores import TierStore
from tierlog.tests.waiting import wait_until
from tierlog.tiering.store.object_keys import ObjectKey, parse_object_key

PROPERTIES = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "remote.fetch.max.wait.ms": "10000",
    "remote.log.manager.task.retry.backoff.ms": "100",
    "remote.log.manager.task.retry.backoff.max.ms": "500",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    "rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "300",
}
WAIT_S = 60.0
"""Scenarios say seconds; a machine that does many things at once gets more of them."""

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING = -1, -2, -3, -4, -5, -6


class Seen(NamedTuple):
    """A record as a client or the tier shows it."""

    offset: int
    key: bytes
    value: bytes


def numbered(numbers: Iterable[int]) -> list[Seen]:
    """The records `k<i>` to `v<i>` at offsets i."""
    return [Seen(number, b"k%d" % number, b"v%d" % number) for number in numbers]


class OneBroker:
    """A broker, its tier, and what was counted of its deeds."""

    def __init__(
        self, directory: Path, store: TierStore, properties: Mapping[str, str] | None = None
    ) -> None:
        self.store = store
        self.metrics_port = free_port()
        stated = {
            **PROPERTIES,
            **store.properties,
            "log.dirs": ",".join(str(directory / "node" / name) for name in ("one", "two")),
            "tierlog.metrics.port": str(self.metrics_port),
            **(properties or {}),
        }
        self.log_dirs = [Path(each) for each in stated["log.dirs"].split(",")]
        self.node: BrokerNode = TierlogNode(directory / "node", properties=stated)
        self._last_ms = 0

    def __enter__(self) -> Self:
        self.node.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.node.stop()
        if error is not None:
            error.add_note(self.node.log_tail())
        else:
            assert "Traceback" not in self.node.output, self.node.output

    @property
    def admin(self) -> AdminClient:
        """librdkafka's, a new one for each request, kept until the next: it must outlive what it is
        asked.

        In a cluster, metadata names a random live broker as the controller, as Kafka's does, and
        librdkafka keeps to it: killed since, it is waited for until the request times out.
        """
        self._admin = AdminClient({"bootstrap.servers": self.node.bootstrap, "log_level": 0})
        return self._admin

    def create(
        self, topic: str, *, per_segment: int = 1, partitions: int = 1, **configs: object
    ) -> None:
        """A tiered topic; `configs` are its properties with `_` for each dot."""
        stated = tiered_configs(per_segment, configs)
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=stated)
        finish(self.admin.create_topics([new]).values())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # published without all types

    def alter(self, topic: str, **configs: object) -> None:
        """Change properties of a topic; None takes one away."""
        entries = [
            ConfigEntry(
                name,
                value,
                incremental_operation=AlterConfigOpType.DELETE
                if value is None
                else AlterConfigOpType.SET,
            )
            for name, value in _properties(configs).items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        finish(self.admin.incremental_alter_configs([resource]).values())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # published without all types

    def delete_topic(self, topic: str) -> None:
        finish(self.admin.delete_topics([topic]).values())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # published without all types

    def expand(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        finish(self.admin.create_partitions([NewPartitions(topic, partitions)]).values())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # published without all types

    def delete_records(self, topic: str, offset: int, partition: int = 0) -> None:
        """DeleteRecords before an offset."""
        before = confluent_kafka.TopicPartition(topic, partition, offset)
        finish(self.admin.delete_records([before]).values())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # published without all types

    def produce(
        self,
        topic: str,
        numbers: Iterable[int],
        *,
        partition: int = 0,
        timestamp: int | None = None,
        **settings: object,
    ) -> None:
        """One record, one batch; the record `k<i>` must come to lie at offset i."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.node.bootstrap,
                "acks": "all",
                "log_level": 0,
                **_properties(settings),
            }
        )
        for number in numbers:
            offsets: list[object] = []
            key, value = b"k%d" % number, b"v%d" % number
            producer.produce(
                topic,
                value,
                key,
                partition=partition,
                on_delivery=partial(_delivered, offsets),
                timestamp=timestamp or self._later_ms(),
            )
            producer.flush(WAIT_S)
            assert offsets == [number]

    def send(self, topic: str, values: Iterable[bytes], **settings: object) -> None:
        """Records without keys, in batches as they come."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.node.bootstrap,
                "acks": "all",
                "log_level": 0,
                **_properties(settings),
            }
        )
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(WAIT_S) == 0

    def begin(
        self, topic: str, *numbers: int, transactional_id: str = "one"
    ) -> confluent_kafka.Producer:
        """A transaction that is left open."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.node.bootstrap,
                "transactional.id": transactional_id,
                "log_level": 0,
            }
        )
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for number in numbers:
            offsets: list[object] = []
            producer.produce(
                topic,
                b"v%d" % number,
                b"k%d" % number,
                partition=0,
                on_delivery=partial(_delivered, offsets),
                timestamp=self._later_ms(),
            )
            producer.flush(WAIT_S)
            assert offsets == [number]
        return producer

    def _later_ms(self) -> int:
        """Now, but later than before.

        Two batches of one millisecond take one entry of the time index, and a segment would hold
        more of them than it is meant to.
        """
        self._last_ms = max(self._last_ms + 1, time.time_ns() // 1_000_000)
        return self._last_ms

    def transact(
        self, topic: str, numbers: Iterable[int], *, commit: bool, transactional_id: str = "one"
    ) -> None:
        """One transaction; each record is a batch of its own, and the marker one more."""
        producer = self.begin(topic, *numbers, transactional_id=transactional_id)
        if commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)

    def bounce(self) -> None:
        """Stop cleanly and start again."""
        self.node.stop()
        self._start_again()

    def _start_again(self) -> None:
        self.node.start()
        # What a client knew of the broker before is not what this is about.
        self.__dict__.pop("admin", None)

    def crash(self) -> None:
        """kill -9, and a start."""
        self.node.kill()
        self._start_again()

    def objects(self, topic: str, partition: int = 0, suffix: str = "log") -> list[ObjectKey]:
        """The objects of one kind in the tier, in the order of their offsets."""
        keys = [parse_object_key(key) for key in self.store.names()]
        return sorted(
            (
                key
                for key in keys
                if key is not None
                and (key.topic_id_partition.topic, key.topic_id_partition.partition)
                == (topic, partition)
                and key.suffix == suffix
            ),
            key=lambda key: (key.start_offset, key.leader_epoch),
        )

    def segments(self, topic: str, partition: int = 0) -> dict[int, list[Seen]]:
        """The records of every whole segment in the tier, by its start offset."""
        found: dict[int, list[Seen]] = {}
        whole = {key.segment_id for key in self.objects(topic, partition, "manifest")}
        for name in self.store.names():
            key = parse_object_key(name)
            if key is None or key.suffix != "log" or key.segment_id not in whole:
                continue
            named = key.topic_id_partition
            if (named.topic, named.partition) == (topic, partition):
                assert key.start_offset not in found, "copied twice"
                found[key.start_offset] = [
                    Seen(record.offset, record.key or b"", record.value or b"")
                    for batch in batches(self.store.read(name))
                    if not batch.is_control
                    for record in batch.records()
                ]
        return dict(sorted(found.items()))

    def wait_for_segments(
        self, topic: str, expected: Mapping[int, Iterable[int]], partition: int = 0
    ) -> None:
        """Until the tier holds just these segments: start offset -> numbers of the records."""
        wanted = {start: numbered(numbers) for start, numbers in expected.items()}

        def starts() -> list[int]:
            return [key.start_offset for key in self.objects(topic, partition, "manifest")]

        wait_until(lambda: starts() == sorted(wanted), WAIT_S, lambda: f"in the tier: {starts()}")
        assert self.segments(topic, partition) == wanted

    def wait_until_empty(self, topic: str, partition: int = 0) -> None:
        """Until nothing of the partition is left in the tier."""

        def left() -> list[str]:
            prefix = f"{topic}-{partition}-"
            return [key for key in self.store.names() if key.startswith(prefix)]

        wait_until(lambda: not left(), WAIT_S, lambda: f"left in the tier: {left()}")

    def directory(self, topic: str, partition: int = 0) -> Path:
        """Where the partition's log is."""
        (found,) = [
            each for log_dir in self.log_dirs for each in log_dir.glob(f"{topic}-{partition}")
        ]
        return found

    def local_starts(self, topic: str, partition: int = 0) -> list[int]:
        """The base offsets of the segments on disk."""
        return sorted(int(path.stem) for path in self.directory(topic, partition).glob("*.log"))

    def wait_for_local(self, topic: str, start: int, partition: int = 0) -> None:
        """Until the first segment on disk is this one."""
        wait_until(
            lambda: self.local_starts(topic, partition)[:1] == [start],
            WAIT_S,
            lambda: f"{topic} has {self.local_starts(topic, partition)}, not {start}",
        )

    def first_epoch(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The first entry of the leader epoch checkpoint."""
        path = self.directory(topic, partition) / "leader-epoch-checkpoint"
        epoch, start = path.read_text().splitlines()[2].split()
        return int(epoch), int(start)

    def wait_for_first_epoch(self, topic: str, expected: tuple[int, int]) -> None:
        wait_until(
            lambda: self.first_epoch(topic) == expected,
            WAIT_S,
            lambda: f"{self.first_epoch(topic)}, not {expected}",
        )

    def read(
        self, topic: str, start: int, count: int, partition: int = 0, *, isolation: str = COMMITTED
    ) -> list[Seen]:
        """The next so many records from an offset on, as librdkafka reads them."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.node.bootstrap,
                "group.id": "nobody",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, start)])
        found: list[Seen] = []

        def has_all() -> bool:
            for message in consumer.consume(max(count - len(found), 1), 0.2):
                offset, key, value = message.offset(), message.key(), message.value()
                if message.error() is None:
                    assert offset is not None
                    assert isinstance(key, bytes | None)
                    assert isinstance(value, bytes)
                    found.append(Seen(offset, key or b"", value))
            return len(found) >= count

        try:
            wait_until(has_all, WAIT_S, lambda: f"{found} of {count} records")
        finally:
            consumer.close()
        return found

    def values(self, topic: str, start: int, count: int) -> list[bytes]:
        """The values of the next so many records from an offset on."""
        found = self.read(topic, start, count)
        assert [seen.offset for seen in found] == list(range(start, start + count))
        return [seen.value for seen in found]

    def consume(
        self, topic: str, start: int, total: int, *, tier: int, fetches: int | None = None
    ) -> list[Seen]:
        """Read from `start`: the first `tier` of `total` records, and only they, are in the tier.

        They take exactly so many reads of it; None does not count them.
        """
        before = self.tier_reads(topic)
        found = self.read(topic, start, total)
        assert found == numbered(range(found[0].offset, found[0].offset + total))
        remote = [seen for each in self.segments(topic).values() for seen in each]
        assert [seen for seen in remote if seen.offset >= start] == found[:tier]
        if fetches is not None:
            counted = self.tier_reads(topic) - before
            assert counted == fetches, f"{counted} reads of the tier, not {fetches}"
        return found

    def offset(self, topic: str, name: int, partition: int = 0) -> tuple[int, int]:
        """ListOffsets in its newest version: the offset and the leader epoch.

        A client asks again while the metadata of the tier is not read, and while a new leader does
        not know the high watermark of its epoch (KIP-207): so does this.
        """
        answers = [self._list_offsets(topic, name, partition)]

        def is_known() -> bool:
            if answers[-1].error_code != ErrorCode.OFFSET_NOT_AVAILABLE:
                return True
            answers.append(self._list_offsets(topic, name, partition))
            return False

        wait_until(is_known, WAIT_S, lambda: f"{name} of {topic}: {answers[-1]}")
        answer = answers[-1]
        assert answer.error_code == 0, answer
        return answer.offset, answer.leader_epoch

    def _list_offsets(
        self, topic: str, name: int, partition: int
    ) -> wire.ListOffsetsPartitionResponse:
        asked = wire.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=-1, timestamp=name
        )
        request = wire.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[wire.ListOffsetsTopic(name=topic, partitions=[asked])],
            timeout_ms=30_000,
        )
        with RawClient(self.node.port) as client:
            return client.ask(request, 11, wire.ListOffsetsResponse).topics[0].partitions[0]

    def wait_for_offset(self, topic: str, name: int, expected: tuple[int, int]) -> None:
        wait_until(
            lambda: self.offset(topic, name) == expected,
            WAIT_S,
            lambda: f"{name} of {topic} is {self.offset(topic, name)}, not {expected}",
        )

    def wait_for_start(self, topic: str, expected: int) -> None:
        wait_until(
            lambda: self.offset(topic, EARLIEST)[0] == expected,
            WAIT_S,
            lambda: f"{topic} begins at {self.offset(topic, EARLIEST)}, not at {expected}",
        )

    def count(self, metric: str, topic: str = "") -> int:
        """A total of `BrokerTopicMetrics` since the broker's start: a topic's, or everyone's."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            page = answer.read().decode()
        of_topic = f',topic="{topic}"' if topic else ""
        pattern = rf'^kafka_server_BrokerTopicMetrics_Count\{{name="{metric}"{of_topic}\}} (\S+)$'
        found = re.search(pattern, page, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def tier_reads(self, topic: str) -> int:
        """How many reads the tier has answered: a segment each, however it was fetched.

        Just after a start some are refused, until the metadata is read.
        """
        asked = self.count("RemoteFetchRequestsPerSec", topic)
        return asked - self.count("RemoteFetchErrorsPerSec", topic)

    def wait_for_count(self, metric: str, topic: str, expected: int) -> None:
        wait_until(
            lambda: self.count(metric, topic) == expected,
            WAIT_S,
            lambda: f"{metric} of {topic} is {self.count(metric, topic)}, not {expected}",
        )


def tiered_configs(per_segment: int, configs: Mapping[str, object]) -> dict[str, str]:
    """The properties of a tiered topic whose segments take so many batches."""
    return {
        "remote.storage.enable": "true",
        "index.interval.bytes": "1",
        "segment.index.bytes": str(12 * per_segment),
        "local.retention.bytes": "1",
        **{name: value or "" for name, value in _properties(configs).items()},
    }


def _delivered(offsets: list[object], error: object, message: confluent_kafka.Message) -> None:
    offsets.append(error or message.offset())


def _properties(named: Mapping[str, object]) -> dict[str, str | None]:
    return {
        name.replace("_", "."): None
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for name, value in named.items()
    }


class _Future(Protocol):
    def result(self, timeout: float) -> object: ...


def finish(futures: Iterable[_Future]) -> None:
    """Wait until all have ended well."""
    for future in futures:
        future.result(WAIT_S)
