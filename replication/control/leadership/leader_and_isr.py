"""Decides how partitions change when brokers, log directories and assignments do.

Every change of an existing partition goes through `PartitionChanges`, which finds the rules of the
topic and asks `build_change`. The functions below it give the changes of all partitions that a
broker takes part in (`ReplicationControlManager.generateLeaderAndIsrUpdates`).
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from ....clients.kafka_uuid import Uuid
from ....storage.config import LogConfig
from ...metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ...metadata.metadata_records import (
    ELR_FEATURE as ELR_FEATURE,
    MIN_ISR_CONFIG,
    NO_LEADER,
    PartitionChangeRecord,
)
from .partition_change import (
    Election,
    LiveBrokers,
    PartitionRules,
    PartitionTarget,
    build_change,
)

TOPIC_DEFAULTS = LogConfig()
"""Kafka's defaults of topic properties."""


class PartitionChanges:
    """Builds changes of the partitions of one image."""

    def __init__(
        self,
        image: ClusterImage,
        defaults: LogConfig,
        *,
        arriving: int | None = None,
        leaving: int | None = None,
    ) -> None:
        """`arriving` and `leaving` are as in `LiveBrokers`."""
        self._image = image
        self._defaults = defaults
        self._live = LiveBrokers(image.brokers, arriving, leaving)
        self._has_elr = image.features.get(ELR_FEATURE, 0) > 0

    def change(
        self,
        topic: TopicImage,
        number: int,
        target: PartitionTarget,
        election: Election | None = None,
    ) -> PartitionChangeRecord | None:
        """The record that brings a partition to its target; None if nothing changes.

        Without an `election` the topic's `unclean.leader.election.enable` decides.
        """
        before = topic.partitions[number]
        if election is None:
            is_unclean = self.allows_unclean_election(topic.name)
            election = Election.UNCLEAN if is_unclean else Election.ONLINE
        rules = PartitionRules(self._effective_min_isr(topic.name, before), self._has_elr)
        record = build_change(before, target, election, rules, self._live)
        if record is not None:
            record.partition_id, record.topic_id = number, topic.topic_id
        return record

    def may_elect(self, topic: str, partition: PartitionImage) -> bool:
        """Whether an election may find a leader; much less work than the election."""
        candidates = (*partition.isr, *partition.elr, *partition.last_known_elr)
        return any(map(self._live.is_active, candidates)) or self.allows_unclean_election(topic)

    def allows_unclean_election(self, topic: str) -> bool:
        """Whether the topic prefers a leader that may have lost records to none."""
        value = self._image.topic_config(topic).get("unclean.leader.election.enable")
        if value is None:
            return self._defaults.unclean_leader_election_enable
        return value.strip().lower() == "true"

    def _effective_min_isr(self, topic: str, partition: PartitionImage) -> int:
        value = self._image.topic_config(topic).get(MIN_ISR_CONFIG)
        if value is None:
            value = self._image.broker_config(None).get(MIN_ISR_CONFIG)
        min_isr = self._defaults.min_insync_replicas if value is None else int(value)
        return min(min_isr, len(partition.replicas))


class LostBroker(NamedTuple):
    """A broker that leaves, or one of its log directories."""

    broker_id: int
    # Its replicas may have lost records.
    is_unclean: bool = False
    # Only the replicas in these directories leave; None for all of them.
    directories: Collection[Uuid] | None = None


def without_broker(
    image: ClusterImage,
    lost: LostBroker,
    defaults: LogConfig = TOPIC_DEFAULTS,
    limit: int | None = None,
) -> list[PartitionChangeRecord]:
    """The changes when a broker is fenced, shuts down, is unregistered or loses a log directory.

    Its replicas leave ISR and leadership. In a cluster with ELR they become eligible leaders where
    the ISR gets too small; if the broker stopped uncleanly, or is unregistered, they are not. There
    are `limit` changes at most: the caller asks again on the image that they result in.
    """
    changes = PartitionChanges(image, defaults, leaving=lost.broker_id)
    unclean = (lost.broker_id,) if lost.is_unclean else ()
    records: list[PartitionChangeRecord] = []
    for topic, number, partition in _partitions(image):
        members = partition.isr
        if lost.is_unclean:
            members += partition.elr
        if lost.broker_id not in members:
            continue
        if len(records) == limit:
            break
        directory = partition.directory(lost.broker_id)
        if lost.directories is not None and directory not in lost.directories:
            continue
        isr = [replica for replica in partition.isr if replica != lost.broker_id]
        target = PartitionTarget(isr=isr, unclean_shutdown=unclean)
        record = changes.change(topic, number, target)
        records += [] if record is None else [record]
    return records


def with_broker(
    image: ClusterImage,
    broker_id: int,
    defaults: LogConfig = TOPIC_DEFAULTS,
    limit: int | None = None,
) -> list[PartitionChangeRecord]:
    """The changes when a broker is unfenced: it leads partitions without a leader if it may.

    `limit` is as in `without_broker`.
    """
    changes = PartitionChanges(image, defaults, arriving=broker_id)
    records: list[PartitionChangeRecord] = []
    for topic, number, partition in _partitions(image):
        if partition.leader != NO_LEADER:
            continue
        if len(records) == limit:
            break
        record = changes.change(topic, number, PartitionTarget())
        records += [] if record is None else [record]
    return records


def elect_missing(
    image: ClusterImage, limit: int, defaults: LogConfig = TOPIC_DEFAULTS
) -> list[PartitionChangeRecord]:
    """Elections in partitions without a leader, where one may lead; `limit` at most.

    Clean ones are left when a controller ends between two parts of a longer step. An unclean one is
    possible when the topic's configuration has changed since
    (`maybeTriggerUncleanLeaderElectionForLeaderlessPartitions`).
    """
    changes = PartitionChanges(image, defaults)
    records: list[PartitionChangeRecord] = []
    for topic, number, partition in _partitions(image):
        if len(records) >= limit:
            break
        if partition.leader != NO_LEADER or not changes.may_elect(topic.name, partition):
            continue
        record = changes.change(topic, number, PartitionTarget())
        records += [] if record is None else [record]
    return records


def elect_preferred(
    image: ClusterImage, limit: int, defaults: LogConfig = TOPIC_DEFAULTS
) -> list[PartitionChangeRecord]:
    """Elections of preferred leaders that do not lead, `limit` at most.

    See `maybeTriggerLeaderChangeForPartitionsWithoutPreferredLeader` in Kafka.
    """
    changes = PartitionChanges(image, defaults)
    records: list[PartitionChangeRecord] = []
    for topic, number, partition in _partitions(image):
        if len(records) >= limit:
            break
        if partition.leader == partition.replicas[0]:
            continue
        record = changes.change(topic, number, PartitionTarget(), Election.PREFERRED)
        records += [] if record is None else [record]
    return records


def _partitions(image: ClusterImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic in image.topics_by_name.values():
        for number, partition in topic.partitions.items():
            yield topic, number, partition
