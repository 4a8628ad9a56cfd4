"""The records that build a cluster image from nothing: the content of a snapshot (KIP-630).

    fold(image_records(image)) = image

Their order is that of Kafka's `MetadataImage.write`; within a kind they are sorted, so that nodes
with equal images write equal records.

Kafka's snapshots say nothing of deleted topics. Ours do, because only the record of a deletion
permits the removal of a topic's logs and of its objects in the tier: each deleted topic is created
and removed, without partitions, before the topics that exist. Kafka reads that as nothing.
"""

from collections.abc import Iterator

from ...clients.kafka_uuid import Uuid
from ...clients.protocol.schema import Message
from .access_records import acl_record
from .cluster_image import BrokerImage, ClusterImage, ControllerImage, PartitionImage
from .metadata_records import (
    METADATA_VERSION_FEATURE,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityData,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

_NO_BROKER = -1


def image_records(image: ClusterImage) -> Iterator[Message]:
    """The records of everything in the image, in the order in which they must be replayed."""
    yield from _feature_records(image)
    for _, broker in sorted(image.brokers.items()):
        yield _broker_record(broker)
    for _, controller in sorted(image.controllers.items()):
        yield _controller_record(controller)
    for topic_id, name in image.deleted_topics.items():
        yield TopicRecord(name=name, topic_id=topic_id)
        yield RemoveTopicRecord(topic_id=topic_id)
    for name, topic in sorted(image.topics_by_name.items()):
        yield TopicRecord(name=name, topic_id=topic.topic_id)
        for number, partition in sorted(topic.partitions.items()):
            yield _partition_record(topic.topic_id, number, partition)
    yield from _config_records(image)
    yield from _quota_records(image)
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(
            broker_id=_NO_BROKER, broker_epoch=-1, next_producer_id=image.next_producer_id
        )
    for entry_id, acl in sorted(image.acls.items()):
        yield acl_record(entry_id, acl)
    yield from _scram_records(image)


def _feature_records(image: ClusterImage) -> Iterator[Message]:
    """The levels of the features, that of metadata.version first: it says how to read the rest."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION_FEATURE, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])


def _broker_record(broker: BrokerImage) -> Message:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(
                name=name, host=end.host, port=end.port, security_protocol=end.security_protocol
            )
            for name, end in broker.endpoints.items()
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=(
            None if broker.cordoned_directories is None else list(broker.cordoned_directories)
        ),
    )


def _controller_record(controller: ControllerImage) -> Message:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=name, host=end.host, port=end.port, security_protocol=end.security_protocol
            )
            for name, end in controller.endpoints.items()
        ],
        features=[
            ControllerFeature(
                name=name, min_supported_version=lowest, max_supported_version=highest
            )
            for name, (lowest, highest) in controller.features.items()
        ],
    )


def _partition_record(topic_id: Uuid, number: int, partition: PartitionImage) -> Message:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _config_records(image: ClusterImage) -> Iterator[Message]:
    for resource, values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(
                resource_type=resource.type, resource_name=resource.name, name=name, value=value
            )


def _quota_records(image: ClusterImage) -> Iterator[Message]:
    # A default entity has no name: None cannot be compared, so it sorts as an empty one.
    entities = sorted(
        image.client_quotas.items(),
        key=lambda item: [(kind, name or "", name is None) for kind, name in item[0]],
    )
    for entity, values in entities:
        for key, value in sorted(values.items()):
            yield ClientQuotaRecord(
                entity=[
                    QuotaEntityData(entity_type=kind, entity_name=name) for kind, name in entity
                ],
                key=key,
                value=value,
            )


def _scram_records(image: ClusterImage) -> Iterator[Message]:
    for (name, mechanism), credential in sorted(image.scram_credentials.items()):
        yield UserScramCredentialRecord(
            name=name,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
