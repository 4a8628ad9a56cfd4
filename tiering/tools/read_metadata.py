"""The metadata topic of a cluster that runs, read from its first record to its last.

For those who only look: a tool, or a scrub. Whoever would delete what the metadata does not know
must have read all of it, so a topic that is missing or has lost its beginning is an error. What
nobody can make sense of is stepped over, as by every broker.
"""

from collections.abc import Mapping

from ...clients.consumer.completed_fetch import UndecodableRecordsError
from ...clients.environment import Environment
from ...clients.errors import ErrorCode, KafkaError
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...storage.remote.remote_log import RemoteLog
from ..metadata.metadata_events import METADATA_TOPIC
from ..metadata.skipped_events import SkippedEvents
from .known_metadata import KnownMetadata

_POLL_MS = 500


async def metadata_of_cluster(
    bootstrap: str, environment: Environment, skipped: SkippedEvents | None = None
) -> Mapping[TopicIdPartition, RemoteLog]:
    """What the metadata topic of a running cluster says now.

    What is no event is stepped over, and told through `skipped`. Raises KafkaError, also if the
    topic is missing or has lost its beginning.
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
    """There is nothing to read."""
    return KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {METADATA_TOPIC} in {where}."
    )


def incomplete(partition: TopicPartition, offset: int) -> KafkaError:
    """The beginning is gone, and with it segments that are still there."""
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"The metadata is not complete: {partition} begins at offset {offset}.",
    )
