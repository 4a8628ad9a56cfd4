"""The calls that every request goes through, each ready to be repeated.

`make micro` measures their time (`test_hot_calls.py`), and a guard in `make test` counts what they
execute and allocate (`costs.py`). A call returns a true value if it did its work. All parts are the
broker's own, with a real disk, real caches and an in-memory tier.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from itertools import count

from ...clients.protocol.codec import decode, encode, encode_bytes
from ...clients.protocol.messages.fetch import FetchRequest
from ...clients.protocol.messages.produce import ProduceRequest
from ...clients.record.batch import Record, RecordBatch
from ...clients.record.builder import build_batch
from ...clients.record.layout import BATCH_OVERHEAD
from ...clients.record.record_walk import RecordWalk
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...replication.partition.append_data import AppendEntry, AppendRequest
from ...replication.partition.fetch_data import FetchParams, FetchPartition
from ...replication.purgatory.purgatory import DelayedOperation, Purgatory
from ...replication.purgatory.timer_wheel import TimerLoop
from ...storage.files import OsFiles
from ...storage.segment.offset_index import OffsetIndex
from ...storage.segment.time_index import TimeIndex
from .hot_messages import fetch_request, fetch_response, produce_request, produce_response
from .one_replica import OneReplica, one_replica
from .one_segment import BATCHES, OneSegment, one_segment

HotCall = Callable[[], object]

_PARTITIONS = 100
_INDEX_ENTRIES = 100_000
_LIKE_IT = 10
_AT_ZERO = bytes(8)


@contextmanager
def hot_calls(directory: str) -> Generator[dict[str, HotCall]]:
    """All hot calls by name; their files are under `directory`."""
    # The tier has its own loop: on the replica's loop, fetches whose wait expires would be counted
    # in the cost of a read.
    with asyncio.Runner() as runner, asyncio.Runner() as tier_runner:
        stack, tier_stack = AsyncExitStack(), AsyncExitStack()
        replica = runner.run(stack.enter_async_context(one_replica(directory, _PARTITIONS)))
        segment = tier_runner.run(tier_stack.enter_async_context(one_segment(directory)))
        try:
            yield {
                **_messages(),
                **_records(),
                **_appends(replica),
                **_local_reads(replica),
                **_indexes(directory),
                **_waiting(runner.get_loop()),
                **_remote_reads(tier_runner, segment),
            }
        finally:
            tier_runner.run(tier_stack.aclose())
            runner.run(stack.aclose())


def _messages() -> dict[str, HotCall]:
    calls: dict[str, HotCall] = {}
    for partitions in (1, 100):
        size = f"{partitions} partition(s)"
        produce = memoryview(encode_bytes(produce_request(partitions), 9))
        fetch = memoryview(encode_bytes(fetch_request(partitions), 12))
        fetched = fetch_response(partitions, None)
        calls |= {
            f"decode Produce request, {size}": partial(decode, ProduceRequest, 9, produce),
            f"encode Produce response, {size}": partial(encode, produce_response(partitions), 9),
            f"decode Fetch request, {size}": partial(decode, FetchRequest, 12, fetch),
            f"encode Fetch response, {size}": partial(encode, fetched, 12),
        }
    return calls


def _batch(value_bytes: int) -> memoryview:
    return memoryview(build_batch([Record(0, 0, None, bytes(value_bytes))]))


def _records() -> dict[str, HotCall]:
    batch = _batch(16 << 10)
    alike = [Record(0, 0, None, bytes(100)) for _ in range(140)]
    similar = [Record(0, 0, b"key", bytes(50 + number * 7 % 101)) for number in range(140)]
    return {
        "check the CRC of 16 KiB": lambda: RecordBatch(batch).crc_is_valid(),
        "walk 140 records of one length": partial(_walk, build_batch(alike)),
        "walk 140 records of many lengths": partial(_walk, build_batch(similar)),
    }


def _walk(encoded: bytes | bytearray) -> bool:
    batch = RecordBatch(memoryview(encoded))
    walk = RecordWalk(batch, batch.view[BATCH_OVERHEAD:])
    walk.finish()
    return walk.agrees_on_time


def _appends(replica: OneReplica) -> dict[str, HotCall]:
    def append(partition: TopicIdPartition, batch: memoryview, acks: int) -> object:
        # Appending writes the offset into the batch; a batch from a producer begins at 0.
        batch[0:8] = _AT_ZERO
        entry = AppendEntry(TopicPartition(partition.topic, partition.partition), batch)
        return replica.replicas.append_records(AppendRequest([entry], acks))

    first, second, third, fourth, *_ = replica.partitions
    many = memoryview(build_batch([Record(0, 0, None, bytes(1 << 10))] * 15))
    calls: dict[str, HotCall] = {
        "append 1 KiB, acks=all": partial(append, first, _batch(1 << 10), -1),
        "append 16 KiB, acks=all": partial(append, second, _batch(16 << 10), -1),
        "append 16 KiB, acks=1": partial(append, third, _batch(16 << 10), 1),
        "append 15 records of 1 KiB, acks=all": partial(append, fourth, many, -1),
    }
    for call in calls.values():
        # Warm up: real producers also send many batches of the same shape.
        for _ in range(_LIKE_IT):
            call()
    return calls


def _local_reads(replica: OneReplica) -> dict[str, HotCall]:
    full, *_, last = replica.partitions
    entry = AppendEntry(TopicPartition(full.topic, last.partition), _batch(16 << 10))
    replica.replicas.append_records(AppendRequest([entry], -1))

    def fetch(partitions: list[TopicIdPartition]) -> object:
        fetches = [FetchPartition(partition, 0, 1 << 20) for partition in partitions]
        return replica.replicas.leader_fetch.fetch(FetchParams(), fetches)

    return {
        "plan a fetch of a batch": partial(fetch, [last]),
        "plan a fetch of 50 partitions without news": partial(fetch, replica.partitions[40:90]),
    }


def _indexes(directory: str) -> dict[str, HotCall]:
    files = OsFiles()
    offsets = OffsetIndex(files, f"{directory}/bench.index", 0, _INDEX_ENTRIES * 8)
    times = TimeIndex(files, f"{directory}/bench.timeindex", 0, _INDEX_ENTRIES * 12)
    for number in range(1, _INDEX_ENTRIES - 1):
        offsets.append(number * 10, number * 4096)
        times.maybe_append(number * 1000, number * 10)
    middle = _INDEX_ENTRIES // 2
    return {
        "look up an offset among 100,000": partial(offsets.lookup, middle * 10 + 5),
        "look up a time among 100,000": partial(times.lookup, middle * 1000 + 5),
    }


class _Waiting(DelayedOperation):
    """Never completes by itself."""

    __slots__ = ()

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        """Do nothing: nobody waits for the response."""


class _NextMillisecond:
    """A loop on which a millisecond passes between two calls, however busy the machine is.

    With another clock, two calls are in the same tick of the wheel or not, and cost as much.
    """

    def __init__(self, loop: TimerLoop) -> None:
        # Both are written in C, as the loop's own: the cost of a call is without them.
        self.time: Callable[[], float] = partial(next, count(1.0, 0.001))
        self.call_at = loop.call_at


def _waiting(loop: TimerLoop) -> dict[str, HotCall]:
    purgatory: Purgatory[_Waiting] = Purgatory("bench", _NextMillisecond(loop))
    for key in range(10_000):
        purgatory.try_complete_else_watch(_Waiting(3_600_000), [key % 100])

    def wait_and_complete() -> bool:
        operation = _Waiting(500)
        purgatory.try_complete_else_watch(operation, ["one"])
        return operation.force_complete()

    return {"wait among 10,000 and complete": wait_and_complete}


def _remote_reads(runner: asyncio.Runner, segment: OneSegment) -> dict[str, HotCall]:
    offsets = count()
    # Fill the caches first: the benchmark measures the reads of a consumer that is catching up.
    runner.run(segment.read(0))

    def read() -> bool:
        offset = next(offsets) * 32 % (BATCHES // 2)
        return bool(runner.run(segment.read(offset)).records)

    return {"read a mebibyte from the tier, cached": read}
