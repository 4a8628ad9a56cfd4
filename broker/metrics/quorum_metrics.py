"""The metrics of the controller and of the metadata quorum, under Kafka's names (KIP-595, KIP-631).

They are computed when they are read. Kafka's `current-state` is a word; here it is not a
metric, but the active controller is the node whose `ActiveControllerCount` is 1.
"""

from collections.abc import Callable

from ...replication.control.controller import Controller
from ...replication.metadata.cluster_image import ClusterImage, PartitionImage
from ...replication.metadata.quorum_member import QuorumMember
from .metrics import Metrics

_CONTROLLER = "kafka.controller:type=KafkaController"
_RAFT = "kafka.server:type=raft-metrics"
_BROKER = "kafka.server:type=broker-metadata-metrics"
_NONE = -1


def register_controller_metrics(metrics: Metrics, controller: Controller) -> None:
    """What the controller of this process knows; the counts are those of its image."""

    def gauge(name: str, value: Callable[[], int]) -> None:
        metrics.gauge(f"{_CONTROLLER},name={name}", value)

    def image() -> ClusterImage:
        return controller.image

    gauge("ActiveControllerCount", lambda: int(controller.is_active))
    gauge("ActiveBrokerCount", lambda: _brokers(image(), fenced=False))
    gauge("FencedBrokerCount", lambda: _brokers(image(), fenced=True))
    gauge("GlobalTopicCount", lambda: len(image().topics_by_name))
    gauge("GlobalPartitionCount", lambda: _partitions(image(), lambda _: True))
    gauge("OfflinePartitionsCount", lambda: _partitions(image(), lambda each: each.leader < 0))
    gauge("PreferredReplicaImbalanceCount", lambda: _partitions(image(), _is_imbalanced))
    gauge("LastAppliedRecordOffset", lambda: image().offset)
    gauge("LastCommittedRecordOffset", lambda: controller.metadata_log.high_watermark - 1)


def register_quorum_metrics(metrics: Metrics, controller: Controller, member: QuorumMember) -> None:
    """This node in the quorum, and how far it has applied what is committed."""

    def gauge(name: str, value: Callable[[], int]) -> None:
        metrics.gauge(f"{_RAFT},name={name}", value)

    gauge("current-leader", lambda: member.leader_id)
    gauge("current-epoch", lambda: member.quorum.epoch)
    gauge("high-watermark", lambda: _or_none(member.quorum.high_watermark))
    gauge("log-end-offset", lambda: controller.metadata_log.end_offset)
    metrics.gauge(f"{_BROKER},name=last-applied-record-offset", lambda: controller.image.offset)


def _or_none(offset: int | None) -> int:
    return _NONE if offset is None else offset


def _brokers(image: ClusterImage, *, fenced: bool) -> int:
    return sum(broker.fenced is fenced for broker in image.brokers.values())


def _partitions(image: ClusterImage, counts: Callable[[PartitionImage], bool]) -> int:
    return sum(
        counts(partition)
        for topic in image.topics_by_name.values()
        for partition in topic.partitions.values()
    )


def _is_imbalanced(partition: PartitionImage) -> bool:
    return partition.leader != partition.replicas[0]
