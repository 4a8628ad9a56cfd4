"""Batches whose records take long to look at: checked in turns, answered as any other."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import Record, RecordBatch, stamp_crc
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.record.layout import BATCH_OVERHEAD
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.leader.offset_lookup import OffsetQuery
from tierlog.replication.partition.append_data import AppendEntry, AppendRequest
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.tests import wire
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

from ..broker_process import BrokerThread, RawClient
from ..replication.broker_node import BrokerNode
from ..replication.node import creation

TIME = 1_700_000_000_000
COUNT = 20_000


def many(count: int = COUNT, codec: CompressionType = CompressionType.NONE) -> memoryview:
    """A batch of records of changing sizes, which are looked at one by one."""
    made = [Record(0, TIME, b"k%d" % each, b"v" * (each % 5)) for each in range(count)]
    return memoryview(build_batch(made, compression=codec))


def with_a_repeated_delta(view: memoryview) -> memoryview:
    # Behind the first record of nine bytes: a length, attributes and a time of a byte each.
    view[BATCH_OVERHEAD + 9 + 3] = 0
    stamp_crc(view, 0, len(view))
    return view


@pytest.mark.parametrize("codec", CompressionType)
async def test_others_have_many_turns_while_a_batch_is_looked_at(
    loop: SimulatedLoop, codec: CompressionType
) -> None:
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    configs = {"cleanup.policy": "compact"}
    await node.controller.create_topics(creation("t", configs=configs))
    entry = AppendEntry(TopicPartition("t", 0), many(codec=codec))
    assert node.replicas.needs_long_check(entry)
    check = asyncio.ensure_future(node.replicas.check_in_steps(entry))
    turns = 0
    while not check.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > COUNT // 10_000
    assert entry.checked_for
    assert not node.replicas.append_records(AppendRequest([entry]))[0].error  # type: ignore[index] # nobody follows
    assert entry.last_offset == COUNT - 1
    await node.stop()


async def test_two_of_them_are_looked_at_one_after_the_other(loop: SimulatedLoop) -> None:
    """However many come at once, others wait for one step of one of them."""
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    await node.controller.create_topics(creation("t"))
    entries = [AppendEntry(TopicPartition("t", 0), many()) for _ in range(2)]
    checks = [asyncio.ensure_future(node.replicas.check_in_steps(each)) for each in entries]
    await checks[0]
    assert [each.checked_for is not None for each in entries] == [True, False]
    await checks[1]
    assert entries[1].checked_for
    await node.stop()


async def test_what_was_looked_at_by_other_rules_is_looked_at_again(loop: SimulatedLoop) -> None:
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    await node.controller.create_topics(creation("t"))
    made = [Record(0, TIME, None, b"v") for _ in range(COUNT)]
    entry = AppendEntry(TopicPartition("t", 0), memoryview(build_batch(made)))
    await node.replicas.check_in_steps(entry)
    assert entry.checked_for
    log = node.replicas.partition(entry.topic_partition).log
    # Now it asks for keys.
    log.update_config(replace(log.config, cleanup_policy=("compact",)))
    node.replicas.append_records(AppendRequest([entry]))
    assert entry.error is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 0
    await node.stop()


def creation_of(name: str, **configs: str) -> wire.CreateTopicsRequest:
    stated = [
        wire.CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()
    ]
    topic = wire.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=stated)
    return wire.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def produce(client: RawClient, topic: str, *batches: memoryview) -> list[tuple[int, int]]:
    """Error code and base offset of each; the batches go to one partition, one request each."""
    results: list[tuple[int, int]] = []
    for batch in batches:
        data = [wire.PartitionProduceData(index=0, records=batch)]
        asked = [wire.TopicProduceData(name=topic, partition_data=data)]
        request = wire.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=asked)
        answer = client.ask(request, 10, wire.ProduceResponse)
        (result,) = answer.responses[0].partition_responses
        results.append((result.error_code, result.base_offset))
    return results


def test_a_producer_of_long_and_short_batches_is_answered_in_order(tmp_path: Path) -> None:
    """The first requests teach the connection what they have in common."""
    refused = (int(ErrorCode.INVALID_RECORD), -1)
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        client.ask(creation_of("plain"), 7, wire.CreateTopicsResponse)
        client.ask(creation_of("keys", cleanup_policy="compact"), 7, wire.CreateTopicsResponse)
        client.ask(creation_of("zstd", compression_type="zstd"), 7, wire.CreateTopicsResponse)
        for topic in ("plain", "keys", "zstd"):
            found = produce(client, topic, *(many(3) for _ in range(4)))
            assert found == [(0, 0), (0, 3), (0, 6), (0, 9)]
            bad = with_a_repeated_delta(many(3))
            assert produce(client, topic, bad, with_a_repeated_delta(many())) == [refused] * 2
            gzip = many(codec=CompressionType.GZIP)
            found = produce(client, topic, many(), gzip, many(2))
            assert found == [(0, 12), (0, 12 + COUNT), (0, 12 + 2 * COUNT)]
        stored = b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("zstd-0/*.log")))
        first = RecordBatch(memoryview(stored))
        assert first.compression_type is CompressionType.ZSTD
        assert len(list(first.records())) == 3


@pytest.mark.parametrize("wanted", [TIME, -3])
async def test_others_have_many_turns_while_a_time_is_looked_for(
    loop: SimulatedLoop, wanted: int
) -> None:
    """The batch was stored when the topic did not open it, and its segment goes meanwhile."""
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    await node.controller.create_topics(creation("t"))
    name = TopicPartition("t", 0)
    made = [Record(0, TIME - 1 + (each == COUNT - 1), b"k", b"v") for each in range(COUNT)]
    batch = memoryview(build_batch(made, compression=CompressionType.GZIP))
    node.replicas.append_records(AppendRequest([AppendEntry(name, batch)]))
    query = OffsetQuery(name, wanted)
    answer = node.replicas.list_offsets([query], FetchIsolation.HIGH_WATERMARK, 30_000)
    assert isinstance(answer, asyncio.Future)
    turns = 0
    log = node.log_manager.get_log(name)
    assert log is not None
    while not answer.done():
        await asyncio.sleep(0)
        turns += 1
        if turns == 3:
            now_ms = node.environment.wall_clock_ms()
            log.roll(now_ms)
            log.maybe_increment_log_start_offset(COUNT)
            log.delete_old_segments(now_ms)
            log.delete_pending(now_ms + 100_000)
    assert turns > COUNT // 4_000
    (result,) = await answer
    assert (result.error, result.offset) == (ErrorCode.NONE, COUNT - 1)
    assert log.log_dir.is_online
    await node.stop()
