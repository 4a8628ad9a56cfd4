"""Writes a broker's data directory from a rebuild plan, while no broker runs.

    mark the directories as unfinished      a broker does not start on them; a rebuild wipes them
    meta.properties                         a new cluster id: the old one is not in the tier
    a log for each partition                empty; starts where the tier ends, with the leader
                                            epochs and producer state of its last segment
    __remote_log_metadata                   two events for each segment: copy started and finished
    __cluster_metadata-0                    topics with their old ids, configs, leader epochs above
                                            any in the tier, producer ids above any in the tier
    remove the mark                         only now can a broker start on them

A transaction that was open at the end of the tier can never be completed, because the coordinator's
log is lost with the disk. It is aborted, as Kafka's tool for hanging transactions does: otherwise
read_committed consumers could not read past it, and nothing above it would ever be copied.

What is not in the tier is lost: topics that are not tiered, records that were not copied yet,
consumer groups' offsets, quotas, and the dynamic configuration of brokers.
"""

from collections.abc import Iterator, Mapping, Sequence

from ...broker.config.config import BrokerConfig
from ...broker.config.topic_defaults import TopicDefaults
from ...clients.kafka_uuid import uuid_to_string
from ...clients.protocol.schema import Message
from ...clients.record.builder import RecordBatchBuilder
from ...clients.record.control import ControlRecordType, EndTransactionMarker
from ...clients.runtime.environment import Environment
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...replication.control.brokers.broker_control import PRODUCER_ID_BLOCK_SIZE, first_records
from ...replication.metadata.cluster_image import ConfigResourceType
from ...replication.metadata.metadata_log import MetadataLog, open_metadata_log
from ...replication.metadata.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from ...storage.config import LogConfig
from ...storage.directory.log_dir import LOCK_FILE, REBUILD_MARKER, LogDirError
from ...storage.files import Files
from ...storage.log.leader_epoch import EpochEntry
from ...storage.log.unified_log import UnifiedLog
from ...storage.manager.log_manager import LogManager
from ...storage.producer.producer_entry import AppendOrigin
from ...storage.producer.producer_snapshot import decode_snapshot
from ...storage.remote.remote_segment import RemoteLogMetadata
from ...tiering.metadata.metadata_events import METADATA_TOPIC, encode_event, metadata_partition
from ...tiering.metadata.metadata_topic import metadata_topic_config
from ...tiering.tools.lineage_choice import finished_event
from ...tiering.tools.plan_rebuild import RebuildPlan
from ...tiering.tools.rebuild_plan import PlannedPartition, PlannedTopic

_EVENTS_PER_BATCH = 500
_IGNORED = frozenset({LOCK_FILE, "lost+found"})


class RebuiltDirectory:
    """The data directory of the rebuilt broker. Its methods block on the disk."""

    def __init__(self, config: BrokerConfig, files: Files, environment: Environment) -> None:
        self._config = config
        self._files = files
        self._environment = environment
        self._default = TopicDefaults(config.values).log_config()

    def check(self) -> None:
        """Raise LogDirError unless each log directory is empty or from an unfinished rebuild."""
        for path in self._config.log_dirs:
            if not self._files.is_directory(path) or self._files.exists(f"{path}/{REBUILD_MARKER}"):
                continue
            names = [name for name in self._files.listdir(path) if name not in _IGNORED]
            if names:
                raise LogDirError(
                    f"The log directory {path} is not empty (it contains {names[0]}): a rebuild "
                    "does not overwrite data. Use an empty one with --override "
                    "log.dirs=DIRECTORY."
                )

    def write(self, plan: RebuildPlan) -> None:
        """Write and flush everything. Raises LogDirError, OSError, KafkaError."""
        self.check()
        for path in self._config.log_dirs:
            self._files.mkdirs(path)
            self._wipe(path)
            self._files.atomic_replace(f"{path}/{REBUILD_MARKER}", b"tierlog tier rebuild\n")
        now_ms = self._environment.wall_clock_ms()
        manager = LogManager(self._files, self._config.log_dirs, self._default)
        manager.directories.open(
            uuid_to_string(self._environment.random_uuid()),
            self._config.node_id,
            self._environment.random_uuid,
            is_rebuild=True,
        )
        first = manager.log_dirs[0]
        metadata_log = open_metadata_log(first, self._config.node_id, now_ms)
        metadata_log.become_leader(now_ms)
        metadata_log.append(first_records(None, str(self._default.min_insync_replicas)), now_ms)
        for topic in plan.topics:
            metadata_log.append(self._topic(manager, topic, now_ms), now_ms)
        metadata_log.append(self._metadata_topic(manager, plan, now_ms), now_ms)
        self._producer_ids(metadata_log, plan, now_ms)
        metadata_log.flush()
        metadata_log.close(now_ms)
        manager.shutdown(now_ms)
        for path in reversed(self._config.log_dirs):
            self._files.remove(f"{path}/{REBUILD_MARKER}")
            self._files.sync_dir(path)

    def _wipe(self, path: str) -> None:
        """Remove the files of an unfinished rebuild."""
        for name in self._files.listdir(path):
            if name in _IGNORED or name == REBUILD_MARKER:
                continue
            if self._files.is_directory(f"{path}/{name}"):
                self._files.remove_tree(f"{path}/{name}")
            else:
                self._files.remove(f"{path}/{name}")

    def _topic(self, manager: LogManager, topic: PlannedTopic, now_ms: int) -> list[Message]:
        """Make the logs of a topic; returns its metadata records."""
        config = LogConfig.from_properties(topic.config, self._default)
        records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic.topic_id)]
        records += _config_records(topic.name, topic.config)
        for number in range(topic.partition_count):
            name = TopicPartition(topic.name, number)
            log = manager.get_or_create_log(name, topic.topic_id, config, now_ms)
            planned = topic.partitions.get(number)
            epoch = 0
            if planned is not None:
                epoch = planned.lineage.highest_epoch
                _begin_where_the_tier_ends(log, planned, now_ms)
            log.flush()
            records.append(self._partition(log, epoch))
        return records

    def _partition(self, log: UnifiedLog, leader_epoch: int) -> PartitionRecord:
        """The partition's record.

        When the broker starts, it raises the leader epoch by one: above any in the tier.
        """
        return PartitionRecord(
            partition_id=log.topic_partition.partition,
            topic_id=log.topic_id,
            replicas=[self._config.node_id],
            isr=[self._config.node_id],
            leader=self._config.node_id,
            leader_epoch=leader_epoch,
            partition_epoch=0,
            directories=[log.log_dir.directory_id],
        )

    def _metadata_topic(self, manager: LogManager, plan: RebuildPlan, now_ms: int) -> list[Message]:
        settings = self._config.remote_log_manager.metadata
        topic_id = self._environment.random_uuid()
        topic_config = metadata_topic_config(settings, replication_factor=1)
        config = LogConfig.from_properties(topic_config, self._default)
        records: list[Message] = [TopicRecord(name=METADATA_TOPIC, topic_id=topic_id)]
        records += _config_records(METADATA_TOPIC, topic_config)
        values: dict[int, list[bytes]] = {}
        for partition, events in _events(plan):
            number = metadata_partition(partition, settings.topic_partitions)
            values.setdefault(number, []).extend(map(encode_event, events))
        for number in range(settings.topic_partitions):
            name = TopicPartition(METADATA_TOPIC, number)
            log = manager.get_or_create_log(name, topic_id, config, now_ms)
            _append_values(log, values.get(number, []), now_ms)
            log.flush()
            records.append(self._partition(log, 0))
        return records

    def _producer_ids(self, metadata_log: MetadataLog, plan: RebuildPlan, now_ms: int) -> None:
        used = plan.next_producer_id
        if used > 0:
            next_block = -(-used // PRODUCER_ID_BLOCK_SIZE) * PRODUCER_ID_BLOCK_SIZE
            record = ProducerIdsRecord(
                broker_id=self._config.node_id, broker_epoch=-1, next_producer_id=next_block
            )
            metadata_log.append([record], now_ms)


def _config_records(topic: str, config: Mapping[str, str]) -> list[Message]:
    return [
        ConfigRecord(
            resource_type=ConfigResourceType.TOPIC, resource_name=topic, name=name, value=value
        )
        for name, value in sorted(config.items())
    ]


def _begin_where_the_tier_ends(log: UnifiedLog, planned: PlannedPartition, now_ms: int) -> None:
    lineage, end = planned.lineage, planned.lineage.log_end_offset
    log.truncate_fully_and_start_at(end, lineage.log_start_offset)
    log.leader_epochs.replace([EpochEntry(*entry) for entry in lineage.history])
    log.producers.restore(planned.producer_snapshot, end)
    for entry in decode_snapshot(planned.producer_snapshot):
        if entry.current_txn_first_offset is None:
            continue
        builder = RecordBatchBuilder(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            is_transactional=True,
            is_control=True,
        )
        marker = EndTransactionMarker(ControlRecordType.ABORT, max(entry.coordinator_epoch, 0))
        builder.append(now_ms, ControlRecordType.ABORT.key(), marker.value())
        log.append_as_leader(
            memoryview(builder.build()),
            lineage.highest_epoch,
            now_ms,
            AppendOrigin.COORDINATOR,
        )
    log.update_high_watermark(log.log_end_offset)


def _events(plan: RebuildPlan) -> Iterator[tuple[TopicIdPartition, Sequence[RemoteLogMetadata]]]:
    for topic in plan.topics:
        for partition in topic.partitions.values():
            for segment in partition.lineage.segments:
                yield segment.topic_id_partition, (segment, finished_event(segment))


def _append_values(log: UnifiedLog, values: Sequence[bytes], now_ms: int) -> None:
    for first in range(0, len(values), _EVENTS_PER_BATCH):
        builder = RecordBatchBuilder()
        for value in values[first : first + _EVENTS_PER_BATCH]:
            builder.append(now_ms, None, value)
        log.append_as_leader(memoryview(builder.build()), 0, now_ms)
    log.update_high_watermark(log.log_end_offset)
