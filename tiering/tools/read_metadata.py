"""Reads the metadata topic of a running cluster from start to end.

For read-only use by tools and scrubs. A scrub deletes what is not in the metadata, so it must read
all of it: a topic that is missing or does not begin at offset 0 is an error. Undecodable records
are skipped, as by every broker.
"""

from collections.abc import Mapping

from ...clients.consumer.completed_fetch import UndecodableRecordsError
from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import Environment
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...storage.remote.remote_log import RemoteLog
from ..metadata.metadata_events import METADATA_TOPIC
from ..metadata.skipped_events import SkippedEvents
from .known_metadata import KnownMetadata

_POLL_MS = 500


async def metadata_of_cluster(
    bootstrap: str, environment: Environment, skipped: SkippedEvents | None = None
) -> Mapping[TopicIdPartition, RemoteLog]:
    """The current content of a running cluster's metadata topic.

    Records that are no events are skipped and reported to `skipped`. Raises KafkaError, also if the
    topic is missing or does not begin at offset 0.
    """
    from ...clients.consumer.consumer import Consumer

    metadata = KnownMetadata(skipped)
    async with Consumer(
        bootstrap, auto_offset_reset="earliest", environment=environment
    ) as consumer:
        partitions = await consumer.partitions_for(METADATA_TOPIC)
        if not partitions:
            raise no_metadata(f"the cluster at {bootstrap}")
        begins = await consumer.beginning_offsets(partitions)
        for partition, offset in begins.items():
            if offset > 0:
                raise incomplete(partition, offset)
        ends = await consumer.end_offsets(partitions)
        remaining = {partition: end for partition, end in ends.items() if end > 0}
        consumer.assign(list(remaining))
        while remaining:
            try:
                for record in await consumer.poll(_POLL_MS):
                    metadata.apply(record.value or b"", record.partition, record.offset)
            except UndecodableRecordsError as error:
                metadata.skipped.skip(error.partition.partition, error.offset, str(error.reason))
                consumer.seek(error.partition, error.next_offset)
            for partition, end in list(remaining.items()):
                if await consumer.position(partition) >= end:
                    del remaining[partition]
    return metadata.remote_logs


def no_metadata(where: str) -> KafkaError:
    """The error for a missing metadata topic."""
    return KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {METADATA_TOPIC} in {where}."
    )


def incomplete(partition: TopicPartition, offset: int) -> KafkaError:
    """The error for a partition without its first records, which may describe existing segments."""
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"The metadata is not complete: {partition} begins at offset {offset}.",
    )
