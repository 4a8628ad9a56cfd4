"""The cluster's state as one immutable value, replayed from the metadata log (`MetadataImage`).

    image + records = image'

An image never changes, so its holder may read it at any time. A `ClusterDelta` collects the changes
of a run of records, shows listeners what has changed, and builds the next image. The new image
shares the old image's maps where nothing changed.

Rules:

- a record that contradicts the image (a partition of an unknown topic, a change of an unknown
  partition) is rejected: an inconsistent state must not be served;
- a PartitionChangeRecord raises the partition epoch by one, and the leader epoch too when it names
  a leader, even the same one (`PartitionRegistration.merge`);
- removing a topic removes its configuration, and a recreated topic is a different topic;
- what stood in the image and is gone from a later one was removed: topics are never forgotten.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import IntEnum
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, TypeVar, cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from ...clients.protocol.schema import Message
from ...clients.sasl.scram_keys import ScramCredential
from ..authorizer.acl import Acl
from .access_records import acl_of
from .metadata_records import (
    NO_LEADER_CHANGE,
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)


class ConfigResourceType(IntEnum):
    """The type of a configuration's owner (`ConfigResource.Type`)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """The owner of a configuration; a broker's name is its id, or empty for all brokers."""

    type: int
    name: str


QuotaEntity = tuple[tuple[str, str | None], ...]
"""The entity of a quota: (type, name) pairs sorted by type; None is the default of the type."""

ScramUser = tuple[str, int]
"""A user's name, and the number of a SCRAM mechanism."""


DELETED_TOPICS_MAX = 10_000
"""How many deleted topics an image remembers; beyond that, it forgets the oldest deletions."""


class FeatureLevels(NamedTuple):
    """The lowest and the highest level of a feature that a node can run at."""

    lowest: int
    highest: int


class Endpoint(NamedTuple):
    """The address of one of a node's listeners."""

    listener: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker."""

    broker_id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool = False
    directories: tuple[Uuid, ...] = ()
    cordoned_directories: tuple[Uuid, ...] | None = None
    features: Mapping[str, FeatureLevels] = field(default_factory=dict[str, FeatureLevels])

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead partitions and be assigned replicas."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """A registered controller."""

    controller_id: int
    incarnation_id: Uuid
    zk_migration_ready: bool
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, FeatureLevels]


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """A partition's replicas and leader."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    directories: tuple[Uuid, ...] = ()
    leader_recovery_state: int = 0

    def directory(self, broker_id: int) -> Uuid | None:
        """The log directory id of a broker's replica: zero if unassigned, None if no replica."""
        if broker_id not in self.replicas:
            return None
        has_directories = len(self.directories) == len(self.replicas)
        return self.directories[self.replicas.index(broker_id)] if has_directories else ZERO_UUID


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic and its partitions."""

    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The committed state of the cluster, up to and including one record."""

    cluster_id: str
    _: KW_ONLY
    # The last record included; -1 before the first.
    offset: int = -1
    epoch: int = -1
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict[int, BrokerImage])
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict[str, TopicImage])
    topics_by_id: Mapping[Uuid, TopicImage] = field(default_factory=dict[Uuid, TopicImage])
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(
        default_factory=dict[ConfigResource, Mapping[str, str]]
    )
    features: Mapping[str, int] = field(default_factory=dict[str, int])
    next_producer_id: int = 0
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(
        default_factory=dict[QuotaEntity, Mapping[str, float]]
    )
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict[int, ControllerImage])
    acls: Mapping[Uuid, Acl] = field(default_factory=dict[Uuid, Acl])
    scram_credentials: Mapping[ScramUser, ScramCredential] = field(
        default_factory=dict[ScramUser, ScramCredential]
    )
    # Topics with a RemoveTopicRecord, and their names; the oldest deletion is the first.
    deleted_topics: Mapping[Uuid, str] = field(default_factory=dict[Uuid, str])

    @property
    def deleted_topic_ids(self) -> AbstractSet[Uuid]:
        """Topics that were deleted. The logs of other unknown topics are never deleted."""
        return self.deleted_topics.keys()

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        topic_image = self.topics_by_name.get(topic)
        return None if topic_image is None else topic_image.partitions.get(partition)

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """The topic's own overrides."""
        return self.configs.get(ConfigResource(ConfigResourceType.TOPIC, topic), _NO_CONFIG)

    def broker_config(self, broker_id: int | None) -> Mapping[str, str]:
        """One broker's dynamic configuration; for None, the default for all brokers."""
        name = "" if broker_id is None else str(broker_id)
        return self.configs.get(ConfigResource(ConfigResourceType.BROKER, name), _NO_CONFIG)


_NO_CONFIG: Mapping[str, str] = MappingProxyType({})


class TopicDelta:
    """The changes that a run of records makes to one topic, new or existing."""

    __slots__ = ("changed_partitions", "name", "topic_id", "was_created")

    def __init__(self, name: str, topic_id: Uuid, was_created: bool) -> None:
        self.name = name
        self.topic_id = topic_id
        self.was_created = was_created
        # The state of each new or changed partition.
        self.changed_partitions: dict[int, PartitionImage] = {}


class ClusterDelta:
    """The changes that a run of records makes to an image."""

    def __init__(self, base: ClusterImage) -> None:
        self.base = base
        self.changed_topics: dict[Uuid, TopicDelta] = {}
        # Topics of the base image that were removed.
        self.deleted_topics: dict[Uuid, TopicImage] = {}
        # Their ids and names, and those of topics both created and removed in the run.
        self.removed_topics: dict[Uuid, str] = {}
        self.changed_configs: dict[ConfigResource, dict[str, str]] = {}
        self.changed_brokers: dict[int, BrokerImage | None] = {}
        self.changed_controllers: dict[int, ControllerImage | None] = {}
        self.features: dict[str, int] = {}
        self.changed_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.changed_acls: dict[Uuid, Acl | None] = {}
        self.changed_scram_credentials: dict[ScramUser, ScramCredential | None] = {}
        self.next_producer_id = base.next_producer_id

    @staticmethod
    def between(base: ClusterImage, image: ClusterImage) -> "ClusterDelta":
        """The changes that turn `base` into `image`, of which either may be empty.

        A topic of `base` that `image` lacks was deleted, even if `image` does not remember it. The
        partitions of a topic must not have become fewer.
        """
        delta = ClusterDelta(base)
        delta._compare_topics(image)
        delta.changed_configs.update(
            {resource: dict(values) for resource, values in _changes(base.configs, image.configs)}
        )
        delta.changed_brokers.update(_differences(base.brokers, image.brokers))
        delta.changed_controllers.update(_differences(base.controllers, image.controllers))
        delta.features.update(
            {name: level or 0 for name, level in _differences(base.features, image.features)}
        )
        delta.changed_quotas.update(
            {
                entity: dict(values)
                for entity, values in _changes(base.client_quotas, image.client_quotas)
            }
        )
        delta.changed_acls.update(_differences(base.acls, image.acls))
        delta.changed_scram_credentials.update(
            _differences(base.scram_credentials, image.scram_credentials)
        )
        delta.next_producer_id = image.next_producer_id
        return delta

    def _compare_topics(self, image: ClusterImage) -> None:
        before = self.base.topics_by_id
        for topic_id, topic in before.items():
            if topic_id not in image.topics_by_id:
                self.deleted_topics[topic_id] = topic
        for topic_id, name in image.deleted_topics.items():
            if topic_id not in self.base.deleted_topics:
                self.removed_topics[topic_id] = name
        for topic_id, gone in self.deleted_topics.items():
            self.removed_topics.setdefault(topic_id, gone.name)
        for topic_id, topic in image.topics_by_id.items():
            old = before.get(topic_id)
            if old is topic:
                continue
            assert old is None or old.partitions.keys() <= topic.partitions.keys(), (
                "A topic never loses a partition."
            )
            partitions: Mapping[int, PartitionImage] = {} if old is None else old.partitions
            changed = topic.partitions
            if partitions:
                changed = {
                    number: partition
                    for number, partition in topic.partitions.items()
                    if partitions.get(number) != partition
                }
            if old is None or changed:
                topic_delta = TopicDelta(topic.name, topic_id, old is None)
                topic_delta.changed_partitions.update(changed)
                self.changed_topics[topic_id] = topic_delta

    def replay(self, record: Message) -> None:
        """Apply one record. Raises KafkaError(INVALID_RECORD) when it contradicts the image."""
        match record:
            case TopicRecord():
                self._replay_topic(record)
            case PartitionRecord():
                self._replay_partition(record)
            case PartitionChangeRecord():
                self._replay_partition_change(record)
            case RemoveTopicRecord():
                self._replay_remove_topic(record)
            case ConfigRecord():
                self._replay_config(record)
            case FeatureLevelRecord():
                self.features[record.name] = record.feature_level
            case ClientQuotaRecord():
                self._replay_quota(record)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case ClearElrRecord():
                self._replay_clear_elr(record)
            case RegisterControllerRecord():
                self._replay_register_controller(record)
            case _:
                self._replay_access_record(record)

    def _replay_access_record(self, record: Message) -> None:
        match record:
            case AccessControlEntryRecord():
                self.changed_acls[record.id] = acl_of(record)
            case RemoveAccessControlEntryRecord():
                self._replay_remove_acl(record)
            case _:
                self._replay_broker_record(record)

    def _replay_broker_record(self, record: Message) -> None:
        match record:
            case RegisterBrokerRecord():
                self._replay_register_broker(record)
            case UnregisterBrokerRecord():
                self._broker(record.broker_id)
                self.changed_brokers[record.broker_id] = None
            case BrokerRegistrationChangeRecord():
                self._replay_registration_change(record)
            case FenceBrokerRecord():
                self.changed_brokers[record.id] = replace(self._broker(record.id), fenced=True)
            case UnfenceBrokerRecord():
                self.changed_brokers[record.id] = replace(self._broker(record.id), fenced=False)
            case _:
                self._replay_scram_record(record)

    def _replay_scram_record(self, record: Message) -> None:
        match record:
            case UserScramCredentialRecord():
                self.changed_scram_credentials[record.name, record.mechanism] = ScramCredential(
                    record.salt, record.stored_key, record.server_key, record.iterations
                )
            case RemoveUserScramCredentialRecord():
                user = record.name, record.mechanism
                base = self.base.scram_credentials
                if self.changed_scram_credentials.get(user, base.get(user)) is None:
                    raise _contradiction("it removes a SCRAM credential that does not exist")
                self.changed_scram_credentials[user] = None
            case _:
                # No-ops and transaction brackets do not change the image.
                pass

    def replay_all(self, records: Iterable[Message]) -> None:
        for record in records:
            self.replay(record)

    def apply(self, offset: int, epoch: int) -> ClusterImage:
        """The image after the run, whose last record has this offset and leader epoch."""
        base = self.base
        by_name, by_id = base.topics_by_name, base.topics_by_id
        if self.changed_topics or self.deleted_topics:
            by_name, by_id = self._new_topics()
        return ClusterImage(
            cluster_id=base.cluster_id,
            offset=offset,
            epoch=epoch,
            brokers=_merge(base.brokers, self.changed_brokers),
            topics_by_name=by_name,
            topics_by_id=by_id,
            configs=_merge(
                base.configs,
                {resource: values or None for resource, values in self.changed_configs.items()},
            ),
            features=_merge(
                base.features, {name: level or None for name, level in self.features.items()}
            ),
            next_producer_id=self.next_producer_id,
            client_quotas=_merge(
                base.client_quotas,
                {entity: values or None for entity, values in self.changed_quotas.items()},
            ),
            controllers=_merge(base.controllers, self.changed_controllers),
            acls=_merge(base.acls, self.changed_acls),
            scram_credentials=_merge(base.scram_credentials, self.changed_scram_credentials),
            deleted_topics=self._new_deleted_topics(),
        )

    def _new_deleted_topics(self) -> Mapping[Uuid, str]:
        if not self.removed_topics:
            return self.base.deleted_topics
        deleted = {**self.base.deleted_topics, **self.removed_topics}
        for oldest in list(islice(deleted, max(0, len(deleted) - DELETED_TOPICS_MAX))):
            del deleted[oldest]
        return MappingProxyType(deleted)

    def _new_topics(self) -> tuple[Mapping[str, TopicImage], Mapping[Uuid, TopicImage]]:
        by_name = dict(self.base.topics_by_name)
        by_id = dict(self.base.topics_by_id)
        for topic_id, topic in self.deleted_topics.items():
            del by_name[topic.name]
            del by_id[topic_id]
        for topic_id, delta in self.changed_topics.items():
            before = by_id.get(topic_id)
            partitions = {} if before is None else dict(before.partitions)
            partitions.update(delta.changed_partitions)
            topic = TopicImage(delta.name, topic_id, MappingProxyType(partitions))
            by_name[delta.name] = by_id[topic_id] = topic
        return MappingProxyType(by_name), MappingProxyType(by_id)

    def _topic_delta(self, topic_id: Uuid) -> TopicDelta:
        delta = self.changed_topics.get(topic_id)
        if delta is None:
            topic = self.base.topics_by_id.get(topic_id)
            if topic is None or topic_id in self.deleted_topics:
                raise _contradiction("it names a topic that does not exist")
            delta = self.changed_topics[topic_id] = TopicDelta(topic.name, topic_id, False)
        return delta

    def _partition(self, delta: TopicDelta, partition: int) -> PartitionImage:
        partition_image = delta.changed_partitions.get(partition)
        if partition_image is None and not delta.was_created:
            partition_image = self.base.topics_by_id[delta.topic_id].partitions.get(partition)
        if partition_image is None:
            raise _contradiction(f"it changes partition {partition}, which does not exist")
        return partition_image

    def _config(self, resource: ConfigResource) -> dict[str, str]:
        values = self.changed_configs.get(resource)
        if values is None:
            values = self.changed_configs[resource] = dict(self.base.configs.get(resource, {}))
        return values

    def _broker(self, broker_id: int) -> BrokerImage:
        broker = (
            self.changed_brokers[broker_id]
            if broker_id in self.changed_brokers
            else self.base.brokers.get(broker_id)
        )
        if broker is None:
            raise _contradiction(f"it names broker {broker_id}, which is not registered")
        return broker

    def _replay_topic(self, record: TopicRecord) -> None:
        self.changed_topics[record.topic_id] = TopicDelta(record.name, record.topic_id, True)

    def _replay_partition(self, record: PartitionRecord) -> None:
        delta = self._topic_delta(record.topic_id)
        delta.changed_partitions[record.partition_id] = PartitionImage(
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            adding_replicas=tuple(record.adding_replicas),
            removing_replicas=tuple(record.removing_replicas),
            directories=tuple(record.directories),
            leader_recovery_state=record.leader_recovery_state,
        )

    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        delta = self._topic_delta(record.topic_id)
        before = self._partition(delta, record.partition_id)
        delta.changed_partitions[record.partition_id] = changed_partition(before, record)

    def _replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Clear the eligible leader replicas of a topic, or of all (`TopicsDelta.replay`)."""
        topics = {topic.name: topic.topic_id for topic in self.base.topics_by_id.values()}
        topics = {name: each for name, each in topics.items() if each not in self.deleted_topics}
        topics.update({topic.name: topic.topic_id for topic in self.changed_topics.values()})
        if record.topic_name:
            if record.topic_name not in topics:
                raise _contradiction("it clears the ELR of a topic that does not exist")
            topics = {record.topic_name: topics[record.topic_name]}
        for topic_id in topics.values():
            base, delta = self.base.topics_by_id.get(topic_id), self.changed_topics.get(topic_id)
            partitions = {} if base is None else dict(base.partitions)
            if delta is not None:
                partitions.update(delta.changed_partitions)
            for number, partition in partitions.items():
                if partition.elr or partition.last_known_elr:
                    cleared = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                    changed = changed_partition(partition, cleared)
                    self._topic_delta(topic_id).changed_partitions[number] = changed

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        delta = self.changed_topics.pop(record.topic_id, None)
        base = self.base.topics_by_id.get(record.topic_id)
        if base is not None:
            self.deleted_topics[record.topic_id] = base
        elif delta is None:
            raise _contradiction("it removes a topic that does not exist")
        name = base.name if base is not None else cast("TopicDelta", delta).name
        self.removed_topics[record.topic_id] = name
        self._config(ConfigResource(ConfigResourceType.TOPIC, name)).clear()

    def _replay_config(self, record: ConfigRecord) -> None:
        values = self._config(ConfigResource(record.resource_type, record.resource_name))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def _replay_quota(self, record: ClientQuotaRecord) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        values = self.changed_quotas.get(entity)
        if values is None:
            values = self.changed_quotas[entity] = dict(self.base.client_quotas.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value

    def _replay_remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        if self.changed_acls.get(record.id, self.base.acls.get(record.id)) is None:
            raise _contradiction("it removes an access control entry that does not exist")
        self.changed_acls[record.id] = None

    def _replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self.changed_brokers[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            cordoned_directories=_directories(record.cordoned_log_dirs),
            features=_feature_levels(record.features),
        )

    def _replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers[record.controller_id] = ControllerImage(
            record.controller_id,
            record.incarnation_id,
            record.zk_migration_ready,
            _endpoints(record.end_points),
            _feature_levels(record.features),
        )

    def _replay_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id)
        self.changed_brokers[record.broker_id] = replace(
            broker,
            fenced=_changed_flag(broker.fenced, record.fenced),
            in_controlled_shutdown=_changed_flag(
                broker.in_controlled_shutdown, record.in_controlled_shutdown
            ),
            directories=tuple(record.log_dirs) or broker.directories,
            cordoned_directories=(
                broker.cordoned_directories
                if record.cordoned_log_dirs is None
                else tuple(record.cordoned_log_dirs)
            ),
        )


def _endpoints(
    ends: Sequence[BrokerEndpoint] | Sequence[ControllerEndpoint],
) -> Mapping[str, Endpoint]:
    return MappingProxyType(
        {end.name: Endpoint(end.name, end.host, end.port, end.security_protocol) for end in ends}
    )


def _feature_levels(
    features: Sequence[BrokerFeature] | Sequence[ControllerFeature],
) -> Mapping[str, FeatureLevels]:
    return MappingProxyType(
        {
            feature.name: FeatureLevels(
                feature.min_supported_version, feature.max_supported_version
            )
            for feature in features
        }
    )


def _directories(named: Sequence[Uuid] | None) -> tuple[Uuid, ...] | None:
    return None if named is None else tuple(named)


def changed_partition(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition after a change record; null fields change nothing."""

    def new(named: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
        return old if named is None else tuple(named)

    names_leader = record.leader != NO_LEADER_CHANGE
    recovery = record.leader_recovery_state
    return PartitionImage(
        replicas=new(record.replicas, before.replicas),
        isr=new(record.isr, before.isr),
        leader=record.leader if names_leader else before.leader,
        leader_epoch=before.leader_epoch + names_leader,
        partition_epoch=before.partition_epoch + 1,
        elr=new(record.eligible_leader_replicas, before.elr),
        last_known_elr=new(record.last_known_elr, before.last_known_elr),
        adding_replicas=new(record.adding_replicas, before.adding_replicas),
        removing_replicas=new(record.removing_replicas, before.removing_replicas),
        directories=before.directories if record.directories is None else tuple(record.directories),
        leader_recovery_state=before.leader_recovery_state if recovery < 0 else recovery,
    )


def _changed_flag(before: bool, change: int) -> bool:
    return before if change == 0 else change > 0


K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")


def _differences(base: Mapping[K, V], image: Mapping[K, V]) -> Iterator[tuple[K, V | None]]:
    """Each key whose value in `image` is another one, or None if `image` lacks it."""
    if base is image:
        return
    for key in base:
        if key not in image:
            yield key, None
    for key, value in image.items():
        if key not in base or base[key] != value:
            yield key, value


def _changes(
    base: Mapping[K, Mapping[str, W]], image: Mapping[K, Mapping[str, W]]
) -> Iterator[tuple[K, Mapping[str, W]]]:
    """Each key whose values in `image` are others; no values if `image` lacks it."""
    for key, values in _differences(base, image):
        yield key, {} if values is None else values


def _merge(base: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    """`base` with changes; None removes a key. Returns `base` itself if there are none."""
    if not changes:
        return base
    merged = dict(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return MappingProxyType(merged)


def _contradiction(why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_RECORD, f"A metadata record contradicts the log before it: {why}."
    )
