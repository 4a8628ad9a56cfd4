"""Connects the groups of the consumer protocol to the log, timers and cluster metadata.

A change to a group is appended to the log and immediately applied in memory. The request is
answered when all in-sync replicas have the change; a request that changes nothing is answered when
all in-sync replicas have the earlier changes. Regular expressions are resolved in the background, a
few topics at a time, so that no request waits for them.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import uuid_to_string
from ...clients.runtime.environment import Environment
from ...replication.metadata.cluster_image import (
    ClusterDelta,
    ClusterImage,
    ConfigResource,
    ConfigResourceType,
)
from ..consumer.consumer_group_update import GroupChange, GroupContext
from ..consumer.consumer_heartbeat import ConsumerHeartbeat, HeartbeatAnswer, check_request
from ..consumer.metadata_hash import MetadataHashes
from ..consumer.shard_entries import entry_record
from ..group_actions import (
    NO_MEMBER_ID,
    Action,
    CancelTimer,
    CompleteJoin,
    CompleteSync,
    JoinRequest,
    JoinResult,
    Left,
    MemberIdentity,
    SetTimer,
    SyncRequest,
    SyncResult,
    TimerKey,
    TimerKind,
    Waiter,
)
from ..group_config import ConsumerGroupConfig, GroupCoordinatorConfig, consumer_group_config
from ..offsets_log import MAY_SURVIVE, UNAVAILABLE, Appended, append_error_to_client
from ..result_or_future import ResultOrFuture
from . import classic_members
from .group_partitions import GroupPartitions, shard_error
from .group_shard import GroupShard

if TYPE_CHECKING:
    from ..consumer.regex_lookup import RegexLookup

# Delay before the removal of an expired member is retried, as in Kafka's CoordinatorTimer.
_RETRY_BACKOFF_MS = 500

_log = logging.getLogger(__name__)


class CarryOut(Protocol):
    """Carries out a group's actions: see `GroupCoordinator`."""

    def __call__(self, shard: GroupShard, actions: Iterable[Action]) -> None: ...


class ConsumerProtocol:
    """Serves the groups of the consumer protocol in all partitions that this broker leads."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        environment: Environment,
        partitions: GroupPartitions,
        carry_out: CarryOut,
    ) -> None:
        self._config = config
        self._environment = environment
        self._partitions = partitions
        self._carry_out = carry_out
        self._image = ClusterImage("")
        self._new_topics_version = -1
        self._hashes = MetadataHashes()
        # The pending regex lookup of each group. They take turns, the first one is next.
        self._lookups: dict[str, tuple[GroupShard, RegexLookup]] = {}
        self._next_look: asyncio.Handle | None = None

    def close(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        self._lookups.clear()

    def use_defaults(self, defaults: ConsumerGroupConfig) -> None:
        """Change the defaults for groups without their own configuration."""
        self._config = self._config._replace(consumer_defaults=defaults)

    # Cluster metadata.

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Apply a new image: groups subscribed to changed topics refresh their metadata."""
        self._image = image
        if any(topic.was_created for topic in delta.changed_topics.values()):
            self._new_topics_version = image.offset
        names = {topic.name for topic in delta.changed_topics.values()}
        names.update(topic.name for topic in delta.deleted_topics.values())
        if names:
            for shard in self._partitions.shards.all():
                shard.consumer_groups.topics_changed(names)

    def settings(self, group_id: str) -> ConsumerGroupConfig:
        """A group's configuration: the broker's defaults, overridden by the group's own."""
        resource = ConfigResource(ConfigResourceType.GROUP, group_id)
        return consumer_group_config(self._config, self._image.configs.get(resource, {}))

    def _context(self, group_id: str) -> GroupContext:
        return GroupContext(
            self._image,
            self._new_topics_version,
            self._config,
            self.settings(group_id),
            self._hashes,
            self._now_ms(),
        )

    # Requests.

    def heartbeat(
        self, request: ConsumerHeartbeat, member_id_is_ours: bool
    ) -> ResultOrFuture[HeartbeatAnswer | KafkaError]:
        """Handle a ConsumerGroupHeartbeat. Errors are returned, not raised."""
        context = self._context(request.group_id)
        try:
            check_request(request, member_id_is_ours, context)
            shard = self._partitions.shard_of(request.group_id)
            error = shard_error(shard)
            if error or shard is None:
                raise KafkaError(error, "")
            if not request.member_id:
                request = request._replace(member_id=self._drawn_member_id())
            change, answer = shard.consumer_heartbeat(request, context)
        except KafkaError as error:
            return error
        loop = asyncio.get_running_loop()
        future: asyncio.Future[HeartbeatAnswer | KafkaError] = loop.create_future()

        def on_written(error: ErrorCode) -> None:
            if not future.done():
                future.set_result(KafkaError(error, "") if error else answer)

        if change.unresolved and request.describable is not None:
            change = change._replace(describable=request.describable)
        self.write(shard, request.group_id, change, on_written)
        return future.result() if future.done() else future

    # Members of the classic protocol.

    def is_consumer_group(self, shard: GroupShard, group_id: str) -> bool:
        """Whether the id is that of a group of the consumer protocol that has members."""
        group = shard.consumer_groups.get(group_id)
        return group is not None and bool(group.members)

    def join(self, shard: GroupShard, request: JoinRequest, waiter: Waiter) -> None:
        """Handle a JoinGroup; the answer is sent once the change is in the log."""
        group = shard.consumer_groups.get(request.group_id)
        assert group is not None
        try:
            change, result = classic_members.join(group, request, self._context(request.group_id))
        except KafkaError as error:
            refused = JoinResult(NO_MEMBER_ID, error.code)
            self._carry_out(shard, [CompleteJoin(waiter, refused)])
            return

        def on_written(error: ErrorCode) -> None:
            answer = JoinResult(NO_MEMBER_ID, error) if error else result
            self._carry_out(shard, [CompleteJoin(waiter, answer)])

        self.write(shard, request.group_id, change, on_written)

    def delete_empty_consumer_group(self, shard: GroupShard, request: JoinRequest) -> ErrorCode:
        """Delete an empty group of the consumer protocol that a new classic member joins.

        Returns UNKNOWN_MEMBER_ID if the request has a member id, or the error of the append.
        """
        group = shard.consumer_groups.get(request.group_id)
        if group is None:
            return ErrorCode.NONE
        if request.member_id != NO_MEMBER_ID:
            return ErrorCode.UNKNOWN_MEMBER_ID
        refusal = ErrorCode.NONE

        def on_written(error: ErrorCode) -> None:
            nonlocal refusal
            refusal = error

        change = GroupChange(tuple(group.tombstones()))
        self.write(shard, request.group_id, change, on_written)
        # An appended change is applied at once, even before it is replicated.
        return refusal if request.group_id in shard.consumer_groups else ErrorCode.NONE

    def sync(self, shard: GroupShard, request: SyncRequest, waiter: Waiter) -> None:
        """Handle a SyncGroup: returns the member's current assignment."""
        group = shard.consumer_groups.get(request.group_id)
        assert group is not None
        try:
            change, result = classic_members.sync(group, request, self._context(request.group_id))
        except KafkaError as error:
            self._carry_out(shard, [CompleteSync(waiter, SyncResult(error.code))])
            return

        def on_written(error: ErrorCode) -> None:
            answer = SyncResult(error) if error else result
            self._carry_out(shard, [CompleteSync(waiter, answer)])

        self.write(shard, request.group_id, change, on_written)

    def classic_heartbeat(
        self, shard: GroupShard, group_id: str, identity: MemberIdentity, generation: int
    ) -> ErrorCode:
        """Handle a Heartbeat: NONE, or REBALANCE_IN_PROGRESS to make the member rejoin."""
        group = shard.consumer_groups.get(group_id)
        assert group is not None
        try:
            error, change = classic_members.heartbeat(group, identity, generation)
        except KafkaError as refused:
            return refused.code
        self.write(shard, group_id, change, _ignore_outcome)
        return error

    def leave(
        self, shard: GroupShard, group_id: str, identities: Sequence[MemberIdentity]
    ) -> ResultOrFuture[Left]:
        """Handle a LeaveGroup: one error code per member, once the change is in the log."""
        group = shard.consumer_groups.get(group_id)
        assert group is not None
        change, errors = classic_members.leave(group, identities, self._context(group_id))
        future: asyncio.Future[Left] = asyncio.get_running_loop().create_future()

        def on_written(error: ErrorCode) -> None:
            if not future.done():
                future.set_result((error, [] if error else errors))

        self.write(shard, group_id, change, on_written)
        return future.result() if future.done() else future

    # Timers.

    def expired(self, shard: GroupShard, key: TimerKey) -> None:
        """Handle a member's expired timer; if the write fails, the timer is set again."""
        change = shard.consumer_groups.expired(key, self._context(key.group_id))

        def on_written(error: ErrorCode) -> None:
            group = shard.consumer_groups.get(key.group_id)
            is_there = group is not None and key.member_id in group.members
            if error and is_there and self._partitions.shards.is_led(shard):
                self._carry_out(shard, [SetTimer(key, _RETRY_BACKOFF_MS, unless_set=True)])

        self.write(shard, key.group_id, change, on_written)

    def _drawn_member_id(self) -> str:
        return uuid_to_string(self._environment.random_uuid())

    # Writing.

    def write(
        self,
        shard: GroupShard,
        group_id: str,
        change: GroupChange,
        then: Callable[[ErrorCode], None],
    ) -> None:
        """Write a change, apply it, and call `then` with the outcome, now or later."""
        is_folded = False

        def fold() -> None:
            nonlocal is_folded
            if not is_folded:
                is_folded = True
                self._fold(shard, group_id, change)

        if not change.entries:
            fold()
            self._partitions.writer.after_writes(shard, then)
            return

        def on_written(outcome: Appended) -> None:
            if not outcome.error or outcome.error in MAY_SURVIVE:
                fold()
            elif not is_folded:
                if outcome.error not in UNAVAILABLE:
                    _log.warning(
                        "Group %s: a change could not be written: %s.", group_id, outcome.error.name
                    )
                # A member that sent a request is alive, even if its change failed.
                self._carry_out(shard, [timer for timer in change.timers if _is_session(timer)])
            then(append_error_to_client(outcome.error))

        records = [entry_record(entry) for entry in change.entries]
        pending = self._partitions.writer.append(shard, records, self._now_ms(), on_written)
        if pending is not None:
            # The change is in the local log, so the next request must see it.
            fold()

    def _fold(self, shard: GroupShard, group_id: str, change: GroupChange) -> None:
        self._carry_out(shard, shard.converted(group_id, change, self._now_ms()))
        if change.unresolved and group_id not in self._lookups:
            # Imported only when needed: few groups use regular expressions.
            from ..consumer.regex_lookup import RegexLookup

            lookup = RegexLookup(change.unresolved, self._image, change.describable)
            self._look_up(shard, group_id, lookup)

    # Regular expressions.

    def _look_up(self, shard: GroupShard, group_id: str, lookup: "RegexLookup") -> None:
        self._lookups[group_id] = shard, lookup
        self._look_soon()

    def _look_soon(self) -> None:
        if self._lookups and self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_soon(self._look_on)

    def _look_on(self) -> None:
        """Go on with one lookup: a stretch of each might keep other clients waiting for seconds."""
        self._next_look = None
        group_id = next(iter(self._lookups))
        shard, lookup = self._lookups.pop(group_id)
        is_led = self._partitions.shards.is_led(shard)
        if is_led and not lookup.is_done_after_next():
            self._look_up(shard, group_id, lookup)
            return
        self._look_soon()
        if is_led:
            regexes = lookup.result(self._now_ms())
            change = shard.consumer_groups.resolved(group_id, regexes, self._context(group_id))
            self.write(shard, group_id, change, _ignore_outcome)

    def _now_ms(self) -> int:
        return self._environment.wall_clock_ms()


def _is_session(timer: SetTimer | CancelTimer) -> bool:
    return isinstance(timer, SetTimer) and timer.key.kind is TimerKind.SESSION


def _ignore_outcome(_: ErrorCode) -> None:
    """Ignore the outcome: no request waits for this write, and a failure has been logged."""
