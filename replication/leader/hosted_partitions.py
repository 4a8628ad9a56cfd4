"""The partitions that this broker hosts, kept in line with the cluster image.

`publish` gets every committed change. A partition with a replica on this broker gets a log and a
role, and loses both when the replica is removed or the topic is deleted. The remote log manager is
notified of the tiered partitions that this broker leads, and the listener of a topic (the
coordinator of `__consumer_offsets`) is notified when a leadership begins or ends.

Rules:

- a log belongs to a topic id: the log of an older topic of the same name is never served (KIP-516);
- a log is deleted only if the cluster's metadata says that its topic was deleted or that its
  replica has left this broker. A log that merely has another topic's id is set aside (`-stray`);
- the role ends before the log: waiting requests are answered and listeners notified before any
  file of the partition is touched;
- a partition whose log directory fails doesn't prevent others from being published;
- if a step fails unexpectedly, the other steps still run, as in Kafka's `BrokerMetadataPublisher`.
  The failure is logged and counted; a second later all steps of the partition run again on the
  newest image.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeVarTuple

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import ZERO_UUID, Uuid, uuid_to_string
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Attempt, Supervisor
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...storage.checkpoint import PARTITION_METADATA_FILE
from ...storage.config import LogConfig
from ...storage.directory.log_dir import ResourcesExhaustedError
from ...storage.log.unified_log import UnifiedLog
from ...storage.manager.log_manager import LogManager
from ...storage.manager.partition_directory import is_misread, write_topic_id
from ..control.controller_loop import PUBLICATION
from ..control.partition_control import UNASSIGNED_DIRECTORY
from ..metadata.cluster_image import (
    ClusterDelta,
    ClusterImage,
    ConfigResourceType,
    PartitionImage,
    TopicDelta,
    TopicImage,
)
from ..partition.partition import BrokerOf, Partition, PartitionRole
from ..remote_tier import RemoteTier
from .partition_backlog import CHANGED_AT_ONCE, CONFIGURED_AT_ONCE, PartitionBacklog
from .role_changes import (
    RoleChanges,
    as_followers,
    as_leaders,
    with_disabled_tiering,
    with_tiering,
)

_log = logging.getLogger(__name__)

StepArguments = TypeVarTuple("StepArguments")

_STRAYS_SHOWN = 10

# Names of receivers of a publication that are not objects.
_CONFIG = "LogConfig"
_PURGATORIES = "the purgatories"


class LeadershipListener(Protocol):
    """Notified when this broker begins or ceases to lead a partition of a topic."""

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """May be called again in the same epoch."""
        ...

    def on_resigned(self, partition: int) -> None:
        """May be called again, and without an election before it."""
        ...


class ReplicaMover(Protocol):
    """Moves replicas between log directories and reports their directories to the controller."""

    def resume(self, partition: Partition) -> None:
        """May be called again while the partition moves."""
        ...

    def forget(self, topic_partition: TopicPartition) -> None: ...

    def report_directory(self, partition: Partition) -> None: ...


class LeaderFetchers(Protocol):
    """Fetches the partitions that this broker follows from their leaders."""

    def publish(self, partitions: Sequence[Partition]) -> None:
        """Follow the leaders of these partitions, as their new images say."""
        ...

    def leave(self, partitions: Collection[TopicIdPartition]) -> None:
        """Once this returns, the logs of these partitions do not change."""
        ...


class HostedConfig(NamedTuple):
    """The node's settings for the partitions it hosts."""

    node_id: int
    replica_lag_time_max_ms: int


class RoleReceivers(NamedTuple):
    """Who gets all new roles of a publication at once; None for what is not there."""

    remote_tier: RemoteTier | None
    fetchers: LeaderFetchers | None


class _Step(NamedTuple):
    """A step of a publication, as named in log lines."""

    subject: object
    receiver: object

    def __str__(self) -> str:
        receiver = self.receiver
        name = receiver if isinstance(receiver, str) else type(receiver).__name__
        return f"{self.subject} to {name}"


class HostedPartitions:
    """The partitions that have a replica on this broker."""

    def __init__(
        self,
        config: HostedConfig,
        environment: Environment,
        log_manager: LogManager,
        receivers: RoleReceivers,
        on_role_change: Callable[[Partition], None],
        supervisor: Supervisor,
        broker_of: BrokerOf,
    ) -> None:
        self._config = config
        self._broker_of = broker_of
        self._supervisor = supervisor
        self._environment = environment
        self._log_manager = log_manager
        self._remote_tier = receivers.remote_tier
        self._on_role_change = on_role_change
        self._listeners: dict[str, LeadershipListener] = {}
        self.mover: ReplicaMover | None = None
        self._fetchers = receivers.fetchers
        self.by_name: dict[TopicPartition, Partition] = {}
        # Partitions that the image assigns to this broker but whose log could not be opened.
        self.offline: set[TopicPartition] = set()
        # Partitions with a failed step: when they are published again, all steps are repeated.
        self._unfinished: set[TopicPartition] = set()
        self._image = ClusterImage("")
        self._backlog = PartitionBacklog(
            self._make_waiting, self._delete_logs, self._change_waiting, self._configure_waiting
        )

    def listen(self, topic: str, listener: LeadershipListener) -> None:
        """Notify `listener` of this broker's leaderships in the topic, current and later ones."""
        self._listeners[topic] = listener
        for partition in list(self.by_name.values()):
            if partition.topic_partition.topic == topic and partition.is_leader:
                self._notify_listener(partition, False, True)

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Apply the image: deletions, then new and changed partitions, then configuration.

        If there are many new or changed partitions or deleted logs, most wait for later turns of
        the event loop.
        """
        self._image = image
        is_start = delta.base.offset < 0
        changes = RoleChanges()
        for topic in delta.deleted_topics.values():
            with self._attempt(topic.name, self):
                self._remove_all(topic)
        self._publish_changed(image, delta, changes)
        if not is_start:
            # At a start, each partition has been created with its configuration, or will be.
            self._publish_configs(image, delta, changes)
        self._notify_fetchers(changes)
        self._notify_remote_tier(changes)
        if is_start:
            with self._attempt("unclaimed logs", self):
                self._settle_unclaimed(image)

    def _publish_changed(
        self, image: ClusterImage, delta: ClusterDelta, changes: RoleChanges
    ) -> None:
        is_start, room = delta.base.offset < 0, CHANGED_AT_ONCE
        # The logs of an earlier life were opened before the start.
        logs = self._log_manager.all_logs() if is_start else ()
        later: list[TopicPartition] = []
        opened = {log.topic_partition for log in logs}
        for changed in delta.changed_topics.values():
            for number, partition_image in changed.changed_partitions.items():
                name = TopicPartition(changed.name, number)
                needs_log = (
                    name not in self.by_name
                    and name not in opened
                    and self._config.node_id in partition_image.replicas
                )
                if needs_log and not self._backlog.has_room():
                    self._backlog.make_later(name)
                elif not needs_log and room <= 0:
                    later.append(name)
                else:
                    room -= not needs_log
                    self._publish_partition(image, changed, number, partition_image, changes)
        self._backlog.change_later(later)

    def _publish_configs(
        self, image: ClusterImage, delta: ClusterDelta, changes: RoleChanges
    ) -> None:
        changed = delta.changed_configs
        if any(resource.type == ConfigResourceType.BROKER for resource in changed):
            # The defaults of every topic may have changed.
            topics = list(image.topics_by_name)
        else:
            topics = [each.name for each in changed if each.type == ConfigResourceType.TOPIC]
        hosted = [
            name
            for topic in topics
            if topic in image.topics_by_name
            for number in image.topics_by_name[topic].partitions
            if (name := TopicPartition(topic, number)) in self.by_name
        ]
        self._publish_config(image, hosted[:CONFIGURED_AT_ONCE], changes)
        for name in hosted[CONFIGURED_AT_ONCE:]:
            self._backlog.configure_later(name)

    async def until_settled(self) -> None:
        """Wait until no partition waits for a later turn of the event loop."""
        await self._backlog.until_empty()

    def stop(self) -> None:
        """Delete the logs that are queued for deletion, and create no more partitions."""
        self._backlog.stop()

    def _make_waiting(self, name: TopicPartition) -> None:
        """Create a partition that was queued, if the image still assigns it to this broker."""
        changes = RoleChanges()
        self._publish_newest(name, changes)
        self._notify_fetchers(changes)
        self._notify_remote_tier(changes, str(name))

    def _change_waiting(self, names: list[TopicPartition]) -> None:
        """Change partitions that were queued, as the newest image says."""
        changes = RoleChanges()
        for name in names:
            self._publish_newest(name, changes)
        self._notify_fetchers(changes)
        self._notify_remote_tier(changes)

    def _configure_waiting(self, names: list[TopicPartition]) -> None:
        """Configure partitions that were queued, as the newest image says."""
        changes = RoleChanges()
        self._publish_config(self._image, names, changes)
        self._notify_remote_tier(changes)

    def _publish_newest(self, name: TopicPartition, changes: RoleChanges) -> None:
        topic = self._image.topics_by_name.get(name.topic)
        partition_image = None if topic is None else topic.partitions.get(name.partition)
        if topic is None or partition_image is None:
            self._resign(name)
        else:
            self._publish_partition(self._image, topic, name.partition, partition_image, changes)

    def _attempt(self, subject: object, receiver: object) -> Attempt:
        """Contain an unexpected failure of a step, so that the others still run."""
        return self._supervisor.attempt(PUBLICATION, _Step(subject, receiver))

    def _run(
        self,
        name: TopicPartition,
        receiver: object,
        step: Callable[[*StepArguments], None],
        *arguments: *StepArguments,
    ) -> None:
        """Run one step of a partition's publication; if it fails, all steps run again later."""
        with self._attempt(name, receiver) as attempt:
            step(*arguments)
        if attempt.has_failed:
            self._do_again(name)

    def _do_again(self, name: TopicPartition) -> None:
        """Publish the partition again in a second, with all steps."""
        self._unfinished.add(name)
        self._backlog.make_again(name)

    def _settle_unclaimed(self, image: ClusterImage) -> None:
        """Delete logs of deleted topics after a crash; warn of other logs without a partition.

        The other logs are kept, because the metadata could be wrong.
        """
        strays: list[str] = []
        deletions: list[tuple[TopicPartition, Callable[[], None]]] = []
        manager, now_ms = self._log_manager, self._environment.wall_clock_ms()
        for log in (*manager.all_logs(), *manager.future_logs.all()):
            name = log.topic_partition
            if self._backlog.is_waiting(name) or name in self.by_name:
                continue
            if name in self.offline or name in self._unfinished:
                continue
            if log.topic_id in image.deleted_topic_ids:
                _log.info("Deleting log %s: its topic was deleted", log.directory)
                # Only this log: another log of the same name may belong to another topic.
                delete = partial(manager.delete_only, log, now_ms, durably=False)
                deletions.append((name, delete))
            else:
                strays.append(log.directory)
        self._delete_each(deletions)
        if strays:
            _log.warning(
                "Found stray log directories (%d) that belong to no partition of this broker; "
                "they are kept: %s",
                len(strays),
                ", ".join(sorted(strays)[:_STRAYS_SHOWN]),
            )

    def _publish_partition(
        self,
        image: ClusterImage,
        topic: TopicDelta | TopicImage,
        number: int,
        partition_image: PartitionImage,
        changes: RoleChanges,
    ) -> None:
        name = TopicPartition(topic.name, number)
        self._backlog.discard(name)
        with self._attempt(name, self) as attempt:
            if self._config.node_id not in partition_image.replicas:
                self._remove(name, topic.topic_id)
                return
            may_resume = name not in self.by_name or name in self._unfinished
            try:
                partition = self._host(image, topic, name, partition_image)
            except ResourcesExhaustedError as error:
                _log.warning("Could not open the log of %s, trying again: %s", name, error.message)
                self._backlog.make_again(name)
                return
            except KafkaError as error:
                _log.error("Could not open the log of %s: %s", name, error)
                self.offline.add(name)
                return
            self._update(image, partition, partition_image, changes)
            if may_resume:
                self._resume_move(partition)
        if attempt.has_failed:
            self._do_again(name)

    def _update(
        self,
        image: ClusterImage,
        partition: Partition,
        partition_image: PartitionImage,
        changes: RoleChanges,
    ) -> None:
        """Give the partition its role, and notify everything that depends on it."""
        name = partition.topic_partition
        had_led = partition.is_leader
        is_newly_elected = partition.update(partition_image, self._environment.wall_clock_ms())
        if name in self._unfinished:
            self._unfinished.remove(name)
            # Receivers that missed the last change must get it now, even if the image is the same.
            had_led, is_newly_elected = True, partition.is_leader
            # An invalid configuration is not tried again: its correction is published anyway.
            with self._attempt(name.topic, _CONFIG):
                config = self._log_config(image, name.topic)
                self._run(name, _CONFIG, self._configure, partition, config, changes)
        if is_newly_elected:
            changes.leaders.append(partition)
        elif partition.role is PartitionRole.FOLLOWER:
            changes.followers.append(partition)
        changes.updated.append(partition)
        if self.mover is not None:
            self._run(name, self.mover, self.mover.report_directory, partition)
        self._run(name, _PURGATORIES, self._on_role_change, partition)
        self._notify_listener(partition, had_led, is_newly_elected)

    def _host(
        self,
        image: ClusterImage,
        topic: TopicDelta | TopicImage,
        name: TopicPartition,
        partition_image: PartitionImage,
    ) -> Partition:
        """The partition, created with its log if it isn't hosted yet."""
        partition = self.by_name.get(name)
        if partition is not None:
            return partition
        self._backlog.settle_deletion(name)
        now_ms = self._environment.wall_clock_ms()
        manager = self._log_manager
        for hosted_log in (manager.get_log(name), manager.future_logs.get(name)):
            if hosted_log is not None:
                self._settle_stale(hosted_log, topic.topic_id, image, now_ms)
        directory = partition_image.directory(self._config.node_id)
        self._settle_future(name, directory, now_ms)
        config = self._log_config(image, topic.name)
        log = self._log_manager.get_or_create_log(
            name,
            topic.topic_id,
            config,
            now_ms,
            None if directory == UNASSIGNED_DIRECTORY else directory,
        )
        partition = Partition(
            TopicIdPartition(topic.topic_id, topic.name, name.partition),
            log,
            partition_image,
            self._config.node_id,
            self._config.replica_lag_time_max_ms,
            self._broker_of,
        )
        self.by_name[name] = partition
        self.offline.discard(name)
        return partition

    def _resume_move(self, partition: Partition) -> None:
        """Resume a move that a stop, a crash or a failed step has interrupted."""
        name = partition.topic_partition
        has_future = self._log_manager.future_logs.get(name) is not None
        if self.mover is not None and has_future and partition.role is not PartitionRole.OFFLINE:
            self._run(name, self.mover, self.mover.resume, partition)

    def _settle_stale(
        self, log: UnifiedLog, topic_id: Uuid, image: ClusterImage, now_ms: int
    ) -> None:
        """Delete, repair or set aside a log that has another topic's id. Raises KafkaError.

        A log that lost its topic id in a power loss is kept for this topic: its records may have
        been acknowledged.
        """
        stored_id, manager = log.topic_id, self._log_manager
        if stored_id in (ZERO_UUID, topic_id):
            return
        if stored_id in image.deleted_topic_ids:
            manager.delete_only(log, now_ms)
        elif is_misread(stored_id, topic_id):
            write_topic_id(log, topic_id)
            _log.error(
                "%s was damaged: its %s has topic id %s, which never existed and differs in "
                "one character from the right one, %s. The file is repaired; check that disk",
                log.directory,
                PARTITION_METADATA_FILE,
                uuid_to_string(stored_id),
                uuid_to_string(topic_id),
            )
        else:
            directory = log.directory
            aside = manager.set_aside(log, now_ms)
            _log.error(
                "%s belongs to topic id %s, which this cluster never had: renamed it to %s, "
                "and %s starts with an empty log. To recover its records, stop the broker, "
                "correct the topic id in %s, and rename the directory back",
                directory,
                uuid_to_string(stored_id),
                aside,
                log.topic_partition,
                PARTITION_METADATA_FILE,
            )

    def _settle_future(self, name: TopicPartition, directory: Uuid | None, now_ms: int) -> None:
        """Finish a move to `directory` that a stop or a crash interrupted at its last step: the
        future log takes over if no current log is left."""
        future = self._log_manager.future_logs.get(name)
        if future is None:
            return
        if self._log_manager.get_log(name) is None and future.log_dir.directory_id == directory:
            self._log_manager.replace_current_with_future(name, now_ms)

    def _log_config(self, image: ClusterImage, topic: str) -> LogConfig:
        return LogConfig.from_properties(
            image.topic_config(topic), self._log_manager.default_config
        )

    def _remove_all(self, topic: TopicImage) -> None:
        """Stop serving the partitions of a deleted topic, then delete local and remote data."""
        names = [TopicPartition(topic.name, number) for number in topic.partitions]
        self._leave([TopicIdPartition(topic.topic_id, *name) for name in names])
        removed = [each for each in map(self._resign, names) if each is not None]
        if removed and self._remote_tier is not None:
            ids = [partition.topic_id_partition for partition in removed]
            with self._attempt(topic.name, self._remote_tier):
                self._remote_tier.stop_partitions(ids, delete=True)
        at_once: list[TopicPartition] = []
        later: list[TopicPartition] = []
        for partition in removed:
            (at_once if self._backlog.has_room() else later).append(partition.topic_partition)
        self._backlog.delete_later(later)
        self._delete_logs(at_once)
        self._delete_unhosted(names, topic.topic_id)

    def _remove(self, name: TopicPartition, topic_id: Uuid) -> None:
        """Stop serving a partition that moves to another broker; its remote data stays."""
        partition = self._resign(name)
        if partition is None:
            # Its replica may have left while this broker was down, or could not be hosted. A log of
            # another topic id stays: see `_settle_unclaimed`.
            self._delete_departed(name, topic_id)
            return
        if self._remote_tier is not None:
            with self._attempt(name, self._remote_tier):
                self._remote_tier.stop_partitions([partition.topic_id_partition], delete=False)
        self._delete_logs([name])

    def _resign(self, name: TopicPartition) -> Partition | None:
        """Stop serving the partition; return it if it was served."""
        self.offline.discard(name)
        is_unfinished = name in self._unfinished
        self._unfinished.discard(name)
        self._backlog.discard(name)
        if self.mover is not None:
            with self._attempt(name, self.mover):
                self.mover.forget(name)
        partition = self.by_name.pop(name, None)
        if partition is None:
            if is_unfinished:
                self._notify_resigned(name)
            return None
        had_led = partition.is_leader or is_unfinished
        self._leave([partition.topic_id_partition])
        partition.remove()
        with self._attempt(name, _PURGATORIES):
            self._on_role_change(partition)
        self._notify_listener(partition, had_led, False)
        return partition

    def _delete_logs(self, names: list[TopicPartition]) -> None:
        """Delete all local logs of the partitions."""
        manager, now_ms = self._log_manager, self._environment.wall_clock_ms()
        self._delete_each(
            (name, partial(manager.delete_log, name, now_ms, durably=False)) for name in names
        )

    def _delete_unhosted(self, names: list[TopicPartition], topic_id: Uuid) -> None:
        """Delete logs of the topic that were created for partitions that could not be hosted."""
        waiting = self._backlog
        logs = [self._log_manager.get_log(name) for name in names if not waiting.will_delete(name)]
        unhosted = [log for log in logs if log is not None and log.topic_id == topic_id]
        if unhosted:
            self._delete_logs([log.topic_partition for log in unhosted])

    def _delete_departed(self, name: TopicPartition, topic_id: Uuid) -> None:
        """Delete the logs of a partition whose committed assignment is without this broker.

        Kafka renames them (`-stray`) if this broker was down when its replica left, and deletes
        them if it was up. The record is the same: what is not assigned here is copied again if it
        ever comes back, and cannot be elected before.
        """
        manager, now_ms = self._log_manager, self._environment.wall_clock_ms()
        if self._backlog.will_delete(name):
            return
        logs = (manager.get_log(name), manager.future_logs.get(name))
        departed = [each for each in logs if each is not None and each.topic_id == topic_id]
        for log in departed:
            _log.info("Deleting log %s: its replica is on other brokers now", log.directory)
        if departed:
            self._delete_each(
                (name, partial(manager.delete_only, log, now_ms, durably=False)) for log in departed
            )

    def _delete_each(self, deletions: Iterable[tuple[TopicPartition, Callable[[], None]]]) -> None:
        """Delete logs durably, with one fsync of each directory for all of them."""
        for name, delete in deletions:
            try:
                delete()
            except KafkaError as error:
                # Its directory is offline: the next start finds the log of a deleted topic.
                _log.error("Could not delete the log of %s: %s", name, error)
            except Exception as error:
                # One failure must not stop the other deletions; the next start finds this log.
                _log.error("Internal error deleting the log of %s", name, exc_info=error)
        self._log_manager.sync_deletions()

    def _publish_config(
        self, image: ClusterImage, names: Sequence[TopicPartition], changes: RoleChanges
    ) -> None:
        """Configure partitions; those of one topic follow one another."""
        for topic, some in groupby(names, attrgetter("topic")):
            with self._attempt(topic, _CONFIG):
                config = self._log_config(image, topic)
                for name in some:
                    partition = self.by_name.get(name)
                    if partition is not None:
                        self._run(name, _CONFIG, self._configure, partition, config, changes)

    def _configure(self, partition: Partition, config: LogConfig, changes: RoleChanges) -> None:
        before = partition.log.config
        if before == config:
            return
        future = self._log_manager.future_logs.get(partition.topic_partition)
        if future is not None:
            future.update_config(config)
        self._change_tiering(partition, config, changes)
        # Last: until the log has the new configuration, the next call does all of this again.
        partition.log.update_config(config)
        partition.update_min_isr()

    def _change_tiering(
        self, partition: Partition, config: LogConfig, changes: RoleChanges
    ) -> None:
        """Apply a new configuration of the topic to the partition's tiering."""
        before = partition.log.config
        if not (config.remote_storage_enable or before.remote_storage_enable):
            return
        if config.remote_storage_enable or config.remote_log_delete_on_disable:
            if partition.is_leader:
                changes.leaders.append(partition)
            elif config.remote_storage_enable != before.remote_storage_enable:
                changes.followers.append(partition)
        elif self._remote_tier is not None:
            self._remote_tier.stop_partitions([partition.topic_id_partition], delete=False)

    def on_moved(self, partition: Partition) -> None:
        """Restart what works on the log of a partition, which another one has replaced: that one
        is in another directory."""
        if self._fetchers is not None:
            with self._attempt(partition.topic_partition, self._fetchers):
                self._fetchers.publish([partition])
        if self._remote_tier is not None and with_tiering([partition]):
            self._remote_tier.stop_partitions([partition.topic_id_partition], delete=False)
            changes = RoleChanges()
            if partition.is_leader:
                changes.leaders.append(partition)
            else:
                changes.followers.append(partition)
            self._notify_remote_tier(changes, str(partition.topic_partition))

    def _notify_listener(self, partition: Partition, had_led: bool, is_newly_elected: bool) -> None:
        name = partition.topic_partition
        listener = self._listeners.get(name.topic)
        if is_newly_elected and listener is not None:
            epoch = partition.leader_epoch
            self._run(name, listener, listener.on_elected, name.partition, epoch)
        elif had_led and not partition.is_leader:
            self._notify_resigned(name)

    def _notify_resigned(self, name: TopicPartition) -> None:
        listener = self._listeners.get(name.topic)
        if listener is not None:
            self._run(name, listener, listener.on_resigned, name.partition)

    def on_log_dir_failure(self, partitions: Iterable[Partition]) -> None:
        """Stop following partitions whose log directory has failed."""
        self._leave([partition.topic_id_partition for partition in partitions])

    def _leave(self, partitions: Collection[TopicIdPartition]) -> None:
        if self._fetchers is not None and partitions:
            with self._attempt("fetchers", self._fetchers):
                self._fetchers.leave(partitions)

    def _notify_fetchers(self, changes: RoleChanges) -> None:
        if self._fetchers is None or not changes.updated:
            return
        with self._attempt("followers", self._fetchers) as attempt:
            self._fetchers.publish(changes.updated)
        if attempt.has_failed:
            for partition in changes.updated:
                self._do_again(partition.topic_partition)

    def _notify_remote_tier(self, changes: RoleChanges, subject: str = "leaderships") -> None:
        manager = self._remote_tier
        if manager is None:
            return
        with self._attempt(subject, manager) as attempt:
            leaders, followers = with_tiering(changes.leaders), with_tiering(changes.followers)
            if leaders or followers:
                manager.on_leadership_change(as_leaders(leaders), as_followers(followers))
            leaders, followers = (
                with_disabled_tiering(changes.leaders),
                with_disabled_tiering(changes.followers),
            )
            if leaders or followers:
                manager.on_tiering_disabled(as_leaders(leaders), as_followers(followers))
        if not attempt.has_failed:
            return
        for partition in (*changes.leaders, *changes.followers):
            self._do_again(partition.topic_partition)
