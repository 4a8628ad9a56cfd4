"""A consumer of the replicas in `tiered_replicas.py`: local records, or those of the tier."""

from typing import NamedTuple

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import batches
from tierlog.replication.partition.fetch_data import EpochEndOffset, FetchParams, FetchPartition
from tierlog.storage.log.fetch_data import RemoteRead
from tierlog.tests.replication.tiered_replicas import PARTITION, ReplicaNode, bytes_of, diverging_in
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.reading.chunk_cache import ChunkCache
from tierlog.tiering.reading.remote_index_cache import RemoteIndexCache
from tierlog.tiering.reading.remote_log_reader import RemoteLogReader


class Consumed(NamedTuple):
    """What one fetch was answered."""

    values: list[str]
    """Each record as "offset/epoch"."""
    error: ErrorCode = ErrorCode.NONE
    from_tier: bool = False
    diverging: EpochEndOffset | None = None


def fetch(node: ReplicaNode, offset: int, *, epoch: int = -1, last_epoch: int = -1) -> Consumed:
    """One fetch of a consumer. `epoch` is the leader epoch that it knows (KIP-320)."""
    asked = FetchPartition(PARTITION, offset, 1 << 20, epoch, last_epoch)
    outcome = node.reader.read(FetchParams(), [asked])
    [result] = outcome.results
    if not outcome.remote:
        error = ErrorCode(result.error_code)
        return Consumed(values_of(bytes_of(result)), error, diverging=diverging_in(result))
    try:
        found = _read_remote(node, outcome.remote[0].read)
    except KafkaError as error:
        return Consumed([], error.code, from_tier=True)
    return Consumed(values_of(found), from_tier=True)


def consume(node: ReplicaNode, offset: int) -> list[str]:
    """Everything that a consumer sees from an offset on."""
    values: list[str] = []
    while offset < node.log.high_watermark:
        found = fetch(node, offset)
        assert found.error is ErrorCode.NONE, found
        assert found.values, f"nothing at {offset}"
        values += found.values
        offset = int(found.values[-1].split("/")[0]) + 1
    return values


def whole_log(node: ReplicaNode) -> dict[int, int]:
    """The leader epoch of every record that a replica could serve as leader, by its offset.

    Fails where the history does not lead to a record at or above the log start.
    """
    found = node.local
    log, remote, tier = node.log, node.group.metadata.log, node.group.tier
    for offset in range(log.log_start_offset, log.local_log_start_offset):
        epoch = log.leader_epochs.epoch_for_offset(offset)
        assert epoch is not None, f"no epoch for {offset}"
        segment = remote.segment_for(epoch, offset)
        assert segment is not None, f"no segment for {offset} of epoch {epoch}"
        batch = next(
            each for each in batches(tier.segments[segment.id].log) if each.base_offset == offset
        )
        assert batch.partition_leader_epoch == epoch
        found[offset] = epoch
    return {offset: found[offset] for offset in sorted(found) if offset >= log.log_start_offset}


def values_of(content: bytes) -> list[str]:
    found: list[str] = []
    for batch in batches(content):
        for record in batch.records():
            offset, epoch = (record.value or b"").decode().split("/")
            assert int(offset) == record.offset
            assert int(epoch) == batch.partition_leader_epoch
            found.append(f"{record.offset}/{batch.partition_leader_epoch}")
    return found


def _read_remote(node: ReplicaNode, read: RemoteRead) -> bytes:
    found: list[bytes] = []
    failures: list[KafkaError] = []

    async def story(_: SimulatedLoop) -> None:
        indexes = RemoteIndexCache(
            node.group.tier, node.files, "/data", 1 << 20, ThreadedPool(1, "test")
        )
        chunks = ChunkCache(node.group.tier, 1 << 20, 4096)
        await indexes.start()
        reader = RemoteLogReader(indexes, chunks)
        try:
            result = await reader.read(read, node.group.metadata.log, node.log)
            found.append(bytes(result.records))
        except KafkaError as error:
            failures.append(error)
        finally:
            await chunks.stop()
            await indexes.stop()

    simulate(story)
    if failures:
        raise failures[0]
    return found[0]
