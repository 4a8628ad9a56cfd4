"""The state of the metadata topic, for read-only tools.

A broker's metadata manager keeps this for its own partitions, a tool for all of them. Both skip and
report a record that is not an event. This is safe: a complete segment that the topic does not name
is left alone (`orphans.py`).
"""

from typing import TYPE_CHECKING

from ...clients.errors import KafkaError
from ...clients.record.batch import RecordBatch
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from ..metadata.metadata_events import decode_event
from ..metadata.skipped_events import SkippedEvents

if TYPE_CHECKING:
    from ...clients.topic_partition import TopicIdPartition


class KnownMetadata:
    """The remote log of every partition in the topic."""

    def __init__(self, skipped: SkippedEvents | None = None) -> None:
        """`skipped` lets a caller that reads repeatedly report each record once."""
        self.remote_logs: dict[TopicIdPartition, RemoteLog] = {}
        self.skipped = SkippedEvents() if skipped is None else skipped

    def apply_all(self, batch: RecordBatch, number: int) -> None:
        """Apply the records of a batch."""
        try:
            for record in batch.records():
                self.apply(record.value or b"", number, record.offset)
        except KafkaError as error:
            self.skipped.skip(number, batch.base_offset, error.message)

    def apply(self, value: bytes, number: int, offset: int) -> None:
        """Apply the value of the record at `offset` in partition `number` of the topic."""
        try:
            event = decode_event(value)
        except KafkaError as error:
            self.skipped.skip(number, offset, f"{error}.")
            return
        partition = event.topic_id_partition
        remote = self.remote_logs.get(partition)
        if remote is None:
            remote = self.remote_logs[partition] = RemoteLog(partition)
        if isinstance(event, RemoteLogSegmentMetadata):
            remote.apply_copy_started(event)
        elif isinstance(event, RemoteLogSegmentMetadataUpdate):
            remote.apply_update(event)
        else:
            remote.apply_partition_delete(event.state)
