"""A disk and a tier as a broker has left them, for stories of what happens to the files.

There is a file of every kind that a broker keeps: logs with transactions, a tiered one that was
read from the tier, a compacted one that was cleaned and has more to clean, and all checkpoints.
"""

import asyncio
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.log.fetch_data import FetchDataInfo, FetchIsolation
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork, on_host
from tierlog.tests.storage.compacted_log import put
from tierlog.tests.storage.log_home import append, end_transaction, idempotent, plain

PLAIN, TIERED = TopicPartition("plain", 0), TopicPartition("tiered", 0)
COMPACTED = TopicPartition("compacted", 0)
TIER = "memory://damaged-starts"
PROPERTIES = {
    "remote.log.storage.system.enable": "true",
    "rsm.config.url": TIER,
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": "2097152",
}
SMALL = {"internal.segment.bytes": "1000", "index.interval.bytes": "100", "retention.ms": "-1"}
IN_TIER = SMALL | {
    "remote.storage.enable": "true",
    "local.retention.bytes": "1500",
    "file.delete.delay.ms": "10",
}
CLEANED = SMALL | {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "10",
}
BOOTSTRAP_FILE = "/data/bootstrap.checkpoint"
"""A cluster's first metadata, where `kafka-storage` formats a directory."""

Table = dict[bytes, bytes]


class Template(NamedTuple):
    """A disk and a tier as a broker has left them, and what was in its logs."""

    disk: SimulatedDisk
    objects: dict[str, bytes]
    plain: bytes
    tiered_offsets: int
    table: Table
    """What the compacted log says of each key."""


class ObjectsInMemory(Protocol):
    """What is used of fsspec's file system in memory, which publishes no types."""

    def cat_file(self, path: str) -> bytes: ...

    def find(self, path: str) -> list[str]: ...

    def exists(self, path: str) -> bool: ...

    def rm(self, path: str, recursive: bool = False) -> None: ...

    def pipe_file(self, path: str, value: bytes) -> None: ...


def objects_in_memory() -> ObjectsInMemory:
    module = import_module("fsspec.implementations.memory")
    return cast("ObjectsInMemory", module.MemoryFileSystem())


def tier_objects() -> dict[str, bytes]:
    files = objects_in_memory()
    return {path: files.cat_file(path) for path in files.find("/damaged-starts")}


def records_of(objects: dict[str, bytes]) -> set[tuple[str, bytes]]:
    """The segments in the tier, each by its base offset and its bytes, whatever its id."""
    return {
        (path.rpartition("/")[2].partition("-")[0], content)
        for path, content in objects.items()
        if path.endswith(".log")
    }


def restore_tier(objects: dict[str, bytes]) -> None:
    files = objects_in_memory()
    if files.exists("/damaged-starts"):
        files.rm("/damaged-starts", recursive=True)
    for path, content in objects.items():
        files.pipe_file(path, content)


def content_of(log: UnifiedLog) -> bytes:
    """All local batches. Raises KafkaError where a client is told that they are damaged."""
    offset, pieces = log.local_log_start_offset, bytearray()
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20, FetchIsolation.LOG_END, min_one_message=True)
        assert isinstance(read, FetchDataInfo)
        piece = read.records if isinstance(read.records, bytes) else read.records.read()
        if not piece:
            break
        pieces += piece
        offset = list(batches(piece))[-1].next_offset
    return bytes(pieces)


def readable_in(log: UnifiedLog) -> bytes | None:
    try:
        return content_of(log)
    except KafkaError as error:
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            return None
        raise


def table_in(log: UnifiedLog) -> Table | None:
    """What a consumer of the compacted log ends up with; None if it is told of damage."""
    content = readable_in(log)
    if content is None:
        return None
    table: Table = {}
    for batch in batches(content):
        try:
            batch.ensure_valid()
        except KafkaError:
            return None
        for record in batch.records():
            assert record.key is not None
            if record.value is None:
                table.pop(record.key, None)
            else:
                table[record.key] = record.value
    return table


def fill_with_keys(log: UnifiedLog, generation: int) -> None:
    """Values for twelve keys, several times; some keys are deleted."""
    for step in range(30):
        value = None if step % 10 == 9 else f"{generation}/{step}".ljust(60, ".")
        put(log, (f"key {step * 5 % 12}", value), (f"key {step % 12}", f"{generation}:{step}"))


def fill(log: UnifiedLog) -> None:
    for step in range(12):
        append(log, idempotent(2 * step, 2))
        append(log, idempotent(3 * step, 3, producer=8, txn=True))
        kind = ControlRecordType.ABORT if step % 3 else ControlRecordType.COMMIT
        end_transaction(log, kind, producer=8)


def log_of(broker: SimulatedBroker, name: TopicPartition) -> UnifiedLog:
    assert broker.logs is not None
    log = broker.logs.get_log(name)
    assert log is not None
    return log


def add_bootstrap_file(disk: SimulatedDisk) -> None:
    files = SimulatedFiles(disk)
    (metadata,) = [
        name for name in files.listdir("/data/__cluster_metadata-0") if name.endswith(".log")
    ]
    content = files.read(f"/data/__cluster_metadata-0/{metadata}")
    files.atomic_replace(BOOTSTRAP_FILE, bytes(next(iter(batches(content))).view))


async def read_from_tier(loop: SimulatedLoop, broker: SimulatedBroker) -> None:
    """Read the tiered topic from its beginning, which caches indexes of what is remote."""
    with on_host("client"):
        environment = SimulatedEnvironment(loop, "reader")
        async with Consumer(broker.bootstrap, environment=environment) as consumer:
            consumer.assign([TIERED])
            consumer.seek_to_beginning([TIERED])
            seen = 0
            while seen < 80:
                seen += len(await consumer.poll(timeout_ms=1000))


@cache
def template(is_clean: bool) -> Template:
    """Made once: a life of a broker with its topics, and its end."""

    async def story(loop: SimulatedLoop) -> Template:
        broker = SimulatedBroker(loop, SimulatedNetwork(loop), PROPERTIES)
        await broker.start()
        with on_host("client"):
            environment = SimulatedEnvironment(loop, "admin")
            async with Admin(broker.bootstrap, environment=environment) as admin:
                await admin.create_topics(
                    [
                        NewTopic(PLAIN.topic, 1, 1, SMALL),
                        NewTopic(TIERED.topic, 1, 1, IN_TIER),
                        NewTopic(COMPACTED.topic, 1, 1, CLEANED),
                    ]
                )
        for _ in range(40):
            append(log_of(broker, TIERED), plain(2))
        fill(log_of(broker, PLAIN))
        fill_with_keys(log_of(broker, COMPACTED), 1)
        await asyncio.sleep(120)
        await read_from_tier(loop, broker)
        for name in (PLAIN, TIERED):
            append(log_of(broker, name), plain(3))
            log_of(broker, name).flush()
        # Until the checkpoint tells how far they are on the disk.
        await asyncio.sleep(70)
        content, end = content_of(log_of(broker, PLAIN)), log_of(broker, TIERED).log_end_offset
        # What the next start has still to clean.
        fill_with_keys(log_of(broker, COMPACTED), 2)
        log_of(broker, COMPACTED).flush()
        assert broker.logs is not None
        broker.logs.checkpoint_recovery_points()
        table = table_in(log_of(broker, COMPACTED))
        assert table is not None
        if is_clean:
            await broker.stop()
        else:
            broker.kill()
        add_bootstrap_file(broker.disk)
        return Template(broker.disk, tier_objects(), content, end, table)

    restore_tier({})
    return simulate(story, 0)
