"""Mounted tiers: topics of other clusters, served read-only beside this broker's own.

    every refresh.ms:  list and read what is new      (tiering/tools/mounted_lineages.py)
                       -> topics, partitions, epochs   into the cluster's metadata, through the
                                                       controller (mounted_topics.py)
                       -> each partition's log         empty; it begins and ends where the tier
                                                       does, with the tier's epoch history

After that a mounted topic works like a local one with all its records in the tier: clients find it
in the metadata, offsets and timestamps are looked up, fetches are remote reads. There are two
differences: the log is read-only (`UnifiedLog.read_only_reason`), and the remote log manager, which
copies, expires and deletes, does not get the topic. Nothing is ever written to a mounted tier.

If a tier does not respond, this is logged once, and the caches still serve what they have of its
last view. The topics of a mount that is no longer configured are removed.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicIdPartition
from ...replication.control.controller import Controller
from ...replication.control.controller_config import Decision
from ...replication.metadata.cluster_image import ClusterImage
from ...replication.remote_tier import RemoteTier
from ...storage.files import Files
from ...storage.log.fetch_data import RemoteRead, RemoteTimestampLookup
from ...storage.log.leader_epoch import EpochEntry
from ...storage.log.unified_log import UnifiedLog
from ...storage.manager.log_manager import LogManager
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemoteLogMetadata
from ...storage.segment.time_index import TimestampAndOffset
from ...tiering.blocking_pool import BlockingPool
from ...tiering.config import RemoteLogManagerConfig
from ...tiering.reading.remote_reads import RemoteReads
from ...tiering.remote_storage import RemoteStorageError
from ...tiering.store.file_system import TierFileSystem
from ...tiering.store.fsspec_storage import FsspecStorage
from ...tiering.tier_access import TierAccess
from ...tiering.tier_statistics import TierStatistics
from ...tiering.tools.mounted_lineages import MountedPartition, MountedView, TierWatcher
from ..config.mount_config import MountConfig
from .mounted_topics import MountDecision, decide_topics, removals
from .mounted_topics_file import MountedTopicsFile

if TYPE_CHECKING:
    from ...tiering.reading.remote_log_reader import RemoteFetchResult
    from ...tiering.remote_log_manager import LeaderPartition

_log = logging.getLogger(__name__)

_TASKS_MAX = 100
_DIRECTORY = "mounted-tiers"


@dataclass(frozen=True, slots=True)
class MountTools:
    """The parts of the broker that mounts use."""

    node_id: int
    controller: Controller
    log_manager: LogManager
    environment: Environment
    files: Files
    pool: BlockingPool
    settings: RemoteLogManagerConfig
    supervisor: Supervisor


class _ViewMetadata:
    """The metadata of a mounted tier as of the last refresh, for its remote reads."""

    def __init__(self) -> None:
        self.view = MountedView()

    def assign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Does nothing: a refresh finds every partition."""

    def is_ready(self, partition: TopicIdPartition) -> bool:
        return partition in self.view.partitions

    def remote_log(self, partition: TopicIdPartition) -> RemoteLog:
        partition_view = self.view.partitions.get(partition)
        return RemoteLog(partition) if partition_view is None else partition_view.remote

    def remote_logs(self) -> list[RemoteLog]:
        return [partition.remote for partition in self.view.partitions.values()]

    def forget(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Does nothing: the next view leaves out what the tier has lost."""

    def watch_all(self) -> None:
        """Does nothing: a refresh finds every partition."""

    async def publish(self, event: RemoteLogMetadata) -> None:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "A mounted tier is read-only.")

    async def start(self) -> None:
        """Does nothing: there is nothing to start."""

    async def stop(self) -> None:
        """Does nothing: there is nothing to stop."""


class _Mount:
    """One mounted tier: its watcher, its last view and its remote reads."""

    def __init__(self, config: MountConfig, tools: MountTools, statistics: TierStatistics) -> None:
        self.config = config
        self.metadata = _ViewMetadata()
        self.trouble = ""
        self.is_announced = False
        self.refused: dict[str, str] = {}
        self.tier = TierFileSystem(config.location, tools.files, tools.pool)
        self.watcher = TierWatcher(self.tier, config.topics)
        settings = replace(
            tools.settings,
            log_directory=f"{tools.settings.log_directory}/{_DIRECTORY}/{config.name}",
        )
        access = TierAccess(
            storage=FsspecStorage(config.location, tools.files, tools.pool),
            metadata=self.metadata,
            files=tools.files,
            pool=tools.pool,
        )
        self.reads = RemoteReads(settings, access, statistics, tools.log_manager.get_log)

    @property
    def reason(self) -> str:
        """Why the topics of this mount are read-only."""
        return f"The topic is mounted read-only from the tier {self.config.name} of another cluster"

    async def close(self) -> None:
        await self.reads.stop()
        await self.tier.close()


class Mounts:
    """The `RemoteTier` of a broker with mounted tiers, in front of its own tier if it has one."""

    def __init__(
        self, configs: Sequence[MountConfig], tools: MountTools, own: RemoteTier | None
    ) -> None:
        self._tools = tools
        self._own = own
        self._statistics = TierStatistics()
        self._mounts = {config.name: _Mount(config, tools, self._statistics) for config in configs}
        directory = tools.log_manager.log_dirs[0].path
        self._file = MountedTopicsFile(tools.files, directory)
        self._tasks = TaskOwner(_TASKS_MAX)

    async def start(self) -> None:
        """Remove the topics of former mounts, and start the refreshes. Never waits for a tier."""
        lost = {each for each, name in self._file.mount_of.items() if name not in self._mounts}
        if lost:
            await self._tools.controller.decide(lambda image: Decision(removals(image, lost), None))
            kept = {each: name for each, name in self._file.mount_of.items() if each not in lost}
            self._file.replace(kept)
        for mount in self._mounts.values():
            self._tools.files.mkdirs(
                f"{self._tools.settings.log_directory}/{_DIRECTORY}/{mount.config.name}"
            )
            await mount.reads.start()
            self._tasks.start(self._refresh(mount), f"mount {mount.config.name}")

    async def stop(self) -> None:
        """Stop the refreshes. Idempotent."""
        await self._tasks.stop()
        for mount in self._mounts.values():
            await mount.close()
        self._tools.pool.stop()

    # Called by replication.

    @property
    def is_fetch_throttled(self) -> bool:
        return self._own is not None and self._own.is_fetch_throttled

    async def read(self, remote_read: RemoteRead) -> "RemoteFetchResult":
        mount = self._mount_of(remote_read.topic_id_partition.topic_id)
        if mount is not None:
            return await mount.reads.read(remote_read)
        return await self._own_tier().read(remote_read)

    async def offset_for_timestamp(
        self, lookup: RemoteTimestampLookup
    ) -> TimestampAndOffset | None:
        mount = self._mount_of(lookup.topic_id_partition.topic_id)
        if mount is not None:
            return await mount.reads.offset_for_timestamp(lookup)
        return await self._own_tier().offset_for_timestamp(lookup)

    def on_leadership_change(
        self, leaders: "Sequence[LeaderPartition]", followers: Sequence[TopicIdPartition]
    ) -> None:
        for leader in leaders:
            partition = leader.topic_id_partition
            mount = self._mount_of(partition.topic_id)
            if mount is not None:
                self._show(mount, partition)
        if self._own is not None:
            own_leaders = [
                each for each in leaders if not self._is_mounted(each.topic_id_partition)
            ]
            self._own.on_leadership_change(own_leaders, self._not_mounted(followers))

    def on_tiering_disabled(
        self, leaders: "Sequence[LeaderPartition]", followers: Sequence[TopicIdPartition]
    ) -> None:
        if self._own is not None:
            own_leaders = [
                leader for leader in leaders if not self._is_mounted(leader.topic_id_partition)
            ]
            self._own.on_tiering_disabled(own_leaders, self._not_mounted(followers))

    def stop_partitions(self, partitions: Sequence[TopicIdPartition], delete: bool) -> None:
        if self._own is not None:
            self._own.stop_partitions(self._not_mounted(partitions), delete)

    def _own_tier(self) -> RemoteTier:
        if self._own is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "This broker has no tier of its own")
        return self._own

    def _mount_of(self, topic_id: Uuid) -> _Mount | None:
        return self._mounts.get(self._file.mount_of.get(topic_id, ""))

    def _is_mounted(self, partition: TopicIdPartition) -> bool:
        return partition.topic_id in self._file.mount_of

    def _not_mounted(self, partitions: Sequence[TopicIdPartition]) -> list[TopicIdPartition]:
        return [partition for partition in partitions if not self._is_mounted(partition)]

    async def _refresh(self, mount: _Mount) -> None:
        while True:
            with self._tools.supervisor.attempt("Refresh of a mounted tier", mount.config.name):
                await self._try_to_look(mount)
            await asyncio.sleep(mount.config.refresh_ms / 1000)

    async def _try_to_look(self, mount: _Mount) -> None:
        try:
            await self._look(mount)
            if not mount.is_announced:
                mount.is_announced = True
                _log.info(
                    "Mounted %s from %s: %d topics, read-only",
                    mount.config.name,
                    mount.config.location,
                    len(mount.metadata.view.topics),
                )
            if mount.trouble:
                _log.warning("The mounted tier %s works again", mount.config.name)
            mount.trouble = ""
        except (RemoteStorageError, KafkaError, OSError) as error:
            if not mount.trouble:
                _log.warning(
                    "Could not read the mounted tier %s, trying again: %s",
                    mount.config.name,
                    error,
                )
            mount.trouble = str(error)

    async def _look(self, mount: _Mount) -> None:
        view = await mount.watcher.look()
        await self._agree(mount, view)
        mount.metadata.view = view
        for partition in view.partitions:
            self._show(mount, partition)

    async def _agree(self, mount: _Mount, view: MountedView) -> None:
        """Make the metadata match the topics of a view."""
        name = mount.config.name
        before = self._file.of(name)
        image = self._tools.controller.image
        new = {
            topic.topic_id: name
            for topic in view.topics.values()
            if topic.topic_id not in self._file.mount_of
            and topic.topic_id not in image.topics_by_id
            and topic.name not in image.topics_by_name
        }
        if new:
            self._file.replace({**self._file.mount_of, **new})

        def decide(image: ClusterImage) -> Decision[MountDecision]:
            node_id, ours = self._tools.node_id, before | new.keys()
            decision = decide_topics(image, node_id, view, ours)
            return Decision(decision.records, decision)

        decision = await self._tools.controller.decide(decide)
        for topic, reason in decision.refused.items():
            if mount.refused.get(topic) != reason:
                _log.warning("Topic %s of mount %s is not available: %s", topic, name, reason)
        mount.refused = decision.refused

    def _show(self, mount: _Mount, partition: TopicIdPartition) -> None:
        """Make a partition's log match the last view."""
        log = self._tools.log_manager.get_log(partition.topic_partition)
        if log is None or log.topic_id != partition.topic_id:
            return
        log.read_only_reason = mount.reason
        mounted = mount.metadata.view.partitions.get(partition)
        if mounted is not None:
            bring_to(log, mounted)


def bring_to(log: UnifiedLog, mounted: MountedPartition) -> None:
    """Make an empty log start and end where the tier does. Raises KafkaError if the disk fails."""
    lineage = mounted.lineage
    log.remote = mounted.remote
    history = [EpochEntry(*entry) for entry in lineage.history]
    starts_lower = lineage.log_start_offset < log.log_start_offset
    if lineage.log_end_offset != log.log_end_offset or starts_lower:
        log.truncate_fully_and_start_at(lineage.log_end_offset, lineage.log_start_offset)
    elif lineage.log_start_offset > log.log_start_offset:
        log.maybe_increment_log_start_offset(lineage.log_start_offset)
    if list(log.leader_epochs.entries) != history:
        log.leader_epochs.replace(history)
    log.update_high_watermark(lineage.log_end_offset)
    log.bounds.update_highest_remote(lineage.log_end_offset - 1)
