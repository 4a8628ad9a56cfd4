"""The metadata topic, folded by somebody who only looks at it.

What a broker's metadata manager keeps for its own partitions, a tool keeps for all of them. A
record that is no event is an error here: a tool that would delete what it does not know of must not
pass over anything.
"""

from typing import TYPE_CHECKING

from ...clients.errors import KafkaError
from ...storage.remote_log import RemoteLog
from ...storage.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from ..metadata_events import decode_event

if TYPE_CHECKING:
    from ...clients.topic_partition import TopicIdPartition


class KnownMetadata:
    """Every partition that the topic tells of."""

    def __init__(self) -> None:
        self.remote_logs: dict[TopicIdPartition, RemoteLog] = {}

    def apply(self, value: bytes, where: str) -> None:
        """Fold the value of a record in. Raises KafkaError(INVALID_RECORD) for what is no event."""
        try:
            event = decode_event(value)
        except KafkaError as error:
            raise KafkaError(
                error.code, f"{where} holds a record that cannot be read: {error.message}"
            ) from error
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
