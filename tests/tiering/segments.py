"""Segments made up for tests of the tier: real metadata over arbitrary bytes."""

from dataclasses import dataclass

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_segment import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierlog.tiering.remote_storage import LogSegmentData, SegmentBytes

PARTITION = TopicIdPartition(Uuid(b"\xfbTopic-id-16-by\xff"), "orders.eu-1", 7)


@dataclass(frozen=True)
class InMemorySegment:
    """Bytes in the place of an open segment file."""

    content: bytes

    @property
    def nbytes(self) -> int:
        return len(self.content)

    def slice(self, offset: int, size: int) -> SegmentBytes:
        return InMemorySegment(self.content[offset : offset + size])

    def read(self) -> bytes:
        return self.content


def segment_metadata(
    number: int,
    *,
    size: int = 100,
    offsets: tuple[int, int] = (0, 99),
    epochs: tuple[tuple[int, int], ...] = ((0, 0),),
    partition: TopicIdPartition = PARTITION,
    txn_index_empty: bool = False,
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, Uuid(number.to_bytes(16, "big"))),
        start_offset=offsets[0],
        end_offset=offsets[1],
        max_timestamp_ms=1_700_000_000_000,
        broker_id=1,
        event_timestamp_ms=1_700_000_000_001,
        segment_size_bytes=size,
        segment_leader_epochs=epochs,
        txn_index_empty=txn_index_empty,
    )


def segment_data(log: bytes, *, transaction_index: bytes | None = None) -> LogSegmentData:
    return LogSegmentData(
        log_segment=InMemorySegment(log),
        offset_index=b"offset index",
        time_index=b"time index",
        transaction_index=transaction_index,
        producer_snapshot=b"snapshot",
        leader_epoch_index=b"0\n1\n0 0\n",
    )
