"""Starts on damaged files: nothing is lost without a line, nothing ends in a traceback.

A broker has a plain topic with transactions and a tiered one. It stops or is killed; then one
file of its disk is damaged, and the next start serves what can be served, or says in one sentence
which file it cannot do without. `--seeds 0-9999` runs ten thousand.
"""

import asyncio
import logging
import random
import traceback
from copy import deepcopy
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol, cast

import pytest

from tierlog.broker.broker import StartError
from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.completed_fetch import UndecodableRecordsError
from tierlog.clients.consumer import Consumer
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import batches
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.fetch_data import FetchDataInfo, FetchIsolation
from tierlog.storage.unified_log import UnifiedLog
from tierlog.tests.fuzz.damages import Damage, damaged
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork, on_host
from tierlog.tests.storage.log_home import append, end_transaction, idempotent, plain

PLAIN, TIERED = TopicPartition("plain", 0), TopicPartition("tiered", 0)
TIER = "memory://damaged-starts"
PROPERTIES = {
    "remote.log.storage.system.enable": "true",
    "rsm.config.url": TIER,
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "log.cleaner.enable": "false",
}
SMALL = {"internal.segment.bytes": "1000", "index.interval.bytes": "100", "retention.ms": "-1"}
IN_TIER = SMALL | {
    "remote.storage.enable": "true",
    "local.retention.bytes": "1500",
    "file.delete.delay.ms": "10",
}
MAY_REFUSE = ("meta.properties", "quorum-state", "bootstrap.checkpoint", "partition.metadata")
"""What says whose data this is, and which votes were cast: a start cannot guess it."""


class Template(NamedTuple):
    """A disk and a tier as a broker has left them, and what was in its logs."""

    disk: SimulatedDisk
    objects: dict[str, bytes]
    plain: bytes
    tiered_offsets: int


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


@cache
def template(is_clean: bool) -> Template:
    """Made once: a life of a broker with both topics, and its end."""

    async def story(loop: SimulatedLoop) -> Template:
        broker = SimulatedBroker(loop, SimulatedNetwork(loop), PROPERTIES)
        await broker.start()
        with on_host("client"):
            environment = SimulatedEnvironment(loop, "admin")
            async with Admin(broker.bootstrap, environment=environment) as admin:
                await admin.create_topics(
                    [NewTopic(PLAIN.topic, 1, 1, SMALL), NewTopic(TIERED.topic, 1, 1, IN_TIER)]
                )
        for _ in range(40):
            append(log_of(broker, TIERED), plain(2))
        fill(log_of(broker, PLAIN))
        await asyncio.sleep(120)
        for name in (PLAIN, TIERED):
            append(log_of(broker, name), plain(3))
            log_of(broker, name).flush()
        # Until the checkpoint tells how far they are on the disk.
        await asyncio.sleep(70)
        content, end = content_of(log_of(broker, PLAIN)), log_of(broker, TIERED).log_end_offset
        if is_clean:
            await broker.stop()
        else:
            broker.kill()
        return Template(broker.disk, tier_objects(), content, end)

    restore_tier({})
    return simulate(story, 0)


class Outcome(NamedTuple):
    """What a start on a damaged disk has come to."""

    refusal: str
    plain: bytes | None
    """None: whoever reads it is told that it is damaged."""
    tiered: list[int]
    lines: list[str]
    tracebacks: list[str]


class Listener(logging.Handler):
    """All that a broker says."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


async def offsets_in(loop: SimulatedLoop, broker: SimulatedBroker) -> list[int]:
    """What a consumer gets of the tiered topic, from its beginning, in a minute."""
    environment = SimulatedEnvironment(loop, "consumer")
    offsets: list[int] = []
    with on_host("client"):
        async with Consumer(broker.bootstrap, environment=environment) as consumer:
            consumer.assign([TIERED])
            consumer.seek_to_beginning([TIERED])
            end = (await consumer.end_offsets([TIERED]))[TIERED]
            for _ in range(60):
                if offsets and offsets[-1] >= end - 1:
                    break
                offsets += [record.offset for record in await consumer.poll(timeout_ms=1000)]
    return offsets


def start_on(disk: SimulatedDisk, seed: int, template_end: int) -> Outcome:
    listener = Listener()

    async def story(loop: SimulatedLoop) -> Outcome:
        broker = SimulatedBroker(loop, SimulatedNetwork(loop), PROPERTIES)
        broker.disk = disk
        try:
            await broker.start()
        except StartError as error:
            return Outcome(str(error), b"", [], [], [])
        try:
            await asyncio.sleep(20)
            if broker.logs is None or broker.logs.get_log(PLAIN) is None:
                return Outcome("", b"", [], [], [])
            try:
                tiered = await offsets_in(loop, broker)
            except UndecodableRecordsError:
                # The checksum of a batch is what tells a consumer, here as in Kafka.
                tiered = list(range(template_end))
            return Outcome("", readable_in(log_of(broker, PLAIN)), tiered, [], [])
        finally:
            await broker.stop()

    root = logging.getLogger()
    root.addHandler(listener)
    try:
        found = simulate(story, seed, time_limit_s=3600)
    finally:
        root.removeHandler(listener)
    lines = [record.getMessage() for record in listener.records]
    tracebacks = [
        "".join(traceback.format_exception(record.exc_info[1]))
        for record in listener.records
        if record.exc_info and record.exc_info[1] is not None
    ]
    return found._replace(lines=lines, tracebacks=tracebacks)


def check(damage: Damage, before: Template, found: Outcome) -> None:
    told = "\n".join(found.lines)
    assert not found.tracebacks, found.tracebacks[0]
    # A copy that is not known to have ended is made anew from the local log, under another name.
    assert records_of(before.objects) <= records_of(tier_objects()), "the tier has lost records"
    if found.refusal:
        is_metadata = damage.folder.startswith("__cluster_metadata")
        assert is_metadata or damage.name in MAY_REFUSE, found.refusal
        assert damage.folder in found.refusal or damage.name in found.refusal, found.refusal
        return
    if found.plain is not None and len(found.plain) != len(before.plain):
        # Bytes that are others than before are for the checksum to find, which consumers look at.
        assert "plain-0" in told, f"records are lost without a line:\n{told}"
    if found.tiered != list(range(before.tiered_offsets)):
        missing = set(range(before.tiered_offsets)) - set(found.tiered)
        assert "tiered-0" in told, f"{sorted(missing)} are lost without a line:\n{told}"


@pytest.mark.seeds("0-39")
def test_a_start_on_a_damaged_file_loses_nothing_in_silence(simulation_seed: int) -> None:
    chance = random.Random(simulation_seed)
    before = template(chance.random() < 0.5)
    disk, damage = damaged(before.disk, chance)
    restore_tier(before.objects)
    try:
        check(damage, before, start_on(disk, simulation_seed, before.tiered_offsets))
    except BaseException as error:
        error.add_note(f"{damage.kind} of {damage.path}")
        raise


def test_a_start_on_whole_files_finds_everything_and_says_nothing() -> None:
    for is_clean in (True, False):
        before = template(is_clean)
        restore_tier(before.objects)
        found = start_on(deepcopy(before.disk), 0, before.tiered_offsets)
        assert (found.plain, found.lines) == (before.plain, [])
        assert found.tiered == list(range(before.tiered_offsets))
