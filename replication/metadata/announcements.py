"""Logs the cluster's changes: topics created and deleted, and partitions led by this broker.

A publication may hold thousands of partitions; if there are more than a few, they share one line.
"""

import logging
from collections.abc import Callable

from ...clients.kafka_uuid import uuid_to_string
from ...clients.text_table import counted
from ...clients.topic_partition import TopicPartition
from ...storage.log.unified_log import UnifiedLog
from .cluster_image import ClusterDelta, ClusterImage, PartitionImage

_log = logging.getLogger(__name__)

_EACH_AT_MOST = 10
"""Above this number, partitions share one line, and further topics are only counted."""


class Announcements:
    """A subscriber of the controller that logs what is new in each image."""

    def __init__(self, node_id: int, log_of: Callable[[TopicPartition], UnifiedLog | None]) -> None:
        self._node_id = node_id
        self._log_of = log_of

    def publish(self, _image: ClusterImage, delta: ClusterDelta) -> None:
        """Log a new image's changes. Must be subscribed after the subscribers that open logs."""
        led = self._newly_led(delta)
        if delta.base.offset < 0:
            if led:
                _log.info("Leading %s after startup", _counts(led))
            return
        created = [each for each in delta.changed_topics.values() if each.was_created]
        for topic in created[:_EACH_AT_MOST]:
            _log.info(
                "Created topic %s with topic id %s and %s",
                topic.name,
                uuid_to_string(topic.topic_id),
                counted(len(topic.changed_partitions), "partition"),
            )
        if len(created) > _EACH_AT_MOST:
            _log.info("Created %d more topics", len(created) - _EACH_AT_MOST)
        self._log_leaderships(led)
        deleted = list(delta.deleted_topics.values())
        for gone in deleted[:_EACH_AT_MOST]:
            _log.info("Deleted topic %s with topic id %s", gone.name, uuid_to_string(gone.topic_id))
        if len(deleted) > _EACH_AT_MOST:
            _log.info("Deleted %d more topics", len(deleted) - _EACH_AT_MOST)

    def _newly_led(self, delta: ClusterDelta) -> dict[TopicPartition, PartitionImage]:
        """The partitions that this broker now leads, in a new leader epoch."""
        led: dict[TopicPartition, PartitionImage] = {}
        for topic_id, topic in delta.changed_topics.items():
            before = delta.base.topics_by_id.get(topic_id)
            for number, partition in topic.changed_partitions.items():
                earlier = None if before is None else before.partitions.get(number)
                if partition.leader != self._node_id or (
                    earlier is not None
                    and (earlier.leader, earlier.leader_epoch)
                    == (partition.leader, partition.leader_epoch)
                ):
                    continue
                led[TopicPartition(topic.name, number)] = partition
        return led

    def _log_leaderships(self, led: dict[TopicPartition, PartitionImage]) -> None:
        if len(led) > _EACH_AT_MOST:
            topics = sorted({partition.topic for partition in led})
            more = ", …" if len(topics) > _EACH_AT_MOST else ""
            names = ", ".join(topics[:_EACH_AT_MOST])
            _log.info("Started leading %s: %s%s", _counts(led), names, more)
            return
        for name, partition in sorted(led.items()):
            log = self._log_of(name)
            if log is not None:
                _log.info(
                    "Leader %s starts at leader epoch %d from offset %d",
                    name,
                    partition.leader_epoch,
                    log.log_end_offset,
                )


def _counts(led: dict[TopicPartition, PartitionImage]) -> str:
    topics = len({partition.topic for partition in led})
    return f"{counted(len(led), 'partition')} of {counted(topics, 'topic')}"
