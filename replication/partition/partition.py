"""One partition on this broker: its log, and this broker's role in it (`Partition`).

    REMOTE TIER     LOCAL LOG
    |---------------|=================|------------|
    log start       local log start   high         log end offset
    offset          offset            watermark

The role is a state machine (`TRANSITIONS`). As leader the partition appends, serves fetches,
tracks each follower's log end offset and moves the high watermark; as follower it refuses appends,
and serves only fetches of consumers that may read from any replica (KIP-392), up to its own high
watermark.

Rules:

- a request with a leader epoch is answered only by the leader of exactly that epoch: an older epoch
  gets FENCED_LEADER_EPOCH, a newer one UNKNOWN_LEADER_EPOCH, and only then is the role checked
  (NOT_LEADER_OR_FOLLOWER);
- with acks=all nothing is appended while fewer than min.insync.replicas are in sync;
- the high watermark is the smallest end offset of the maximal ISR; in a partition without followers
  it always equals the log end offset;
- only the controller changes the ISR: the leader asks it to (`isr.py`).
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType

from ...clients.errors import ErrorCode, KafkaError
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...storage.config import LogConfig
from ...storage.log.append_result import LogAppendInfo
from ...storage.log.unified_log import UnifiedLog
from ...storage.producer.producer_entry import AppendOrigin
from ..metadata.cluster_image import BrokerImage, PartitionImage
from ..metadata.replica_epoch import NO_BROKER_EPOCH, ReplicaEpoch
from ..topic_names import INTERNAL_TOPICS, NEVER_TIERED
from .append_data import ACKS_ALL
from .fetch_data import NO_EPOCH, CurrentLeader, EpochEndOffset
from .high_watermark import IsrView, effective_min_isr, next_high_watermark
from .isr import (
    ErrorReaction,
    IsrAnswer,
    IsrProposal,
    IsrState,
    after_answer,
    after_refusal,
    committed_isr,
    expanding,
    has_reached,
    is_eligible,
    out_of_sync,
    reaction_to,
    shrinking,
)
from .replica import Replica

BrokerOf = Callable[[int], BrokerImage | None]
"""Finds a registered broker in the cluster's metadata."""


class PartitionRole(Enum):
    """The role of this broker for a partition."""

    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline: its log directory has failed"
    REMOVED = "removed: no longer on this broker"


class PartitionEvent(Enum):
    """The events that change the role."""

    LEAD = "lead"
    FOLLOW = "follow"
    FAIL = "log directory failed"
    REMOVE = "remove"


TRANSITIONS: Mapping[tuple[PartitionRole, PartitionEvent], PartitionRole] = MappingProxyType(
    {
        (PartitionRole.FOLLOWER, PartitionEvent.LEAD): PartitionRole.LEADER,
        (PartitionRole.FOLLOWER, PartitionEvent.FOLLOW): PartitionRole.FOLLOWER,
        (PartitionRole.FOLLOWER, PartitionEvent.FAIL): PartitionRole.OFFLINE,
        (PartitionRole.FOLLOWER, PartitionEvent.REMOVE): PartitionRole.REMOVED,
        # The same leader in a newer epoch.
        (PartitionRole.LEADER, PartitionEvent.LEAD): PartitionRole.LEADER,
        (PartitionRole.LEADER, PartitionEvent.FOLLOW): PartitionRole.FOLLOWER,
        (PartitionRole.LEADER, PartitionEvent.FAIL): PartitionRole.OFFLINE,
        (PartitionRole.LEADER, PartitionEvent.REMOVE): PartitionRole.REMOVED,
        # A failed log directory is not used again before a restart.
        (PartitionRole.OFFLINE, PartitionEvent.LEAD): PartitionRole.OFFLINE,
        (PartitionRole.OFFLINE, PartitionEvent.FOLLOW): PartitionRole.OFFLINE,
        (PartitionRole.OFFLINE, PartitionEvent.FAIL): PartitionRole.OFFLINE,
        (PartitionRole.OFFLINE, PartitionEvent.REMOVE): PartitionRole.REMOVED,
    }
)
"""No event leaves REMOVED: a partition that comes back is a new `Partition`."""

# Python 3.11 takes 0.1 µs to look up an enum member, and this runs for every request.
_LEADER, _FOLLOWER = PartitionRole.LEADER, PartitionRole.FOLLOWER


class Partition:
    """A partition that has a replica here."""

    __slots__ = (
        "_broker_of",
        "_followers",
        "_max_lag_ms",
        "_node_id",
        "image",
        "is_internal",
        "isr_state",
        "leader_epoch",
        "leader_epoch_start_offset",
        "log",
        "min_isr",
        "restricts_writers",
        "role",
        "topic_id_partition",
        "topic_partition",
    )

    def __init__(
        self,
        topic_id_partition: TopicIdPartition,
        log: UnifiedLog,
        image: PartitionImage,
        node_id: int,
        max_lag_ms: int = 30_000,
        broker_of: BrokerOf | None = None,
    ) -> None:
        """Without `broker_of` every replica counts as alive, and as eligible for the ISR."""
        self.topic_id_partition = topic_id_partition
        self.topic_partition: TopicPartition = topic_id_partition.topic_partition
        self.is_internal = topic_id_partition.topic in INTERNAL_TOPICS
        # Whether only certain producers may write to it: the same topics are never tiered.
        self.restricts_writers = topic_id_partition.topic in NEVER_TIERED
        self.log = log
        self.role = PartitionRole.FOLLOWER
        self.image = image
        self.leader_epoch = image.leader_epoch
        # The log end offset when this broker became leader; earlier records are of older epochs.
        self.leader_epoch_start_offset = -1
        # As leader: the ISR, and the one that was requested from the controller.
        self.isr_state: IsrState = committed_isr(image.isr, image.partition_epoch)
        self.min_isr = 1
        self._node_id = node_id
        self._max_lag_ms = max_lag_ms
        self._broker_of = broker_of
        # As leader: every other replica. If empty, the high watermark is the log end offset.
        self._followers: dict[int, Replica] = {}

    @property
    def node_id(self) -> int:
        """The id of this broker."""
        return self._node_id

    @property
    def is_leader(self) -> bool:
        return self.role is PartitionRole.LEADER

    @property
    def current_leader(self) -> CurrentLeader:
        """The leader according to the cluster's metadata."""
        return CurrentLeader(self.image.leader, self.image.leader_epoch)

    def apply(self, event: PartitionEvent) -> None:
        """Change the role according to `TRANSITIONS`; a missing transition is a bug."""
        self.role = TRANSITIONS[self.role, event]

    def update(self, image: PartitionImage, now_ms: int = 0) -> bool:
        """Set the role that the metadata assigns to this broker.

        Returns whether it leads in a new epoch.
        """
        self._adopt_isr(image)
        known_epoch, was_leader = self.leader_epoch, self.is_leader
        self.image = image
        self.leader_epoch = image.leader_epoch
        self.update_min_isr()
        if image.leader != self._node_id:
            self.apply(PartitionEvent.FOLLOW)
            self._followers = {}
            return False
        self.apply(PartitionEvent.LEAD)
        if not self.is_leader:
            return False
        is_new = not was_leader or image.leader_epoch != known_epoch
        end = self.log.log_end_offset
        if is_new:
            self.leader_epoch_start_offset = end
        followers: dict[int, Replica] = {}
        for broker_id in image.replicas:
            if broker_id != self._node_id:
                follower = self._followers.get(broker_id) or Replica(broker_id)
                if is_new:
                    is_in_isr = broker_id in image.isr
                    follower.on_term(end, now_ms, is_new=not was_leader, is_in_isr=is_in_isr)
                followers[broker_id] = follower
        self._followers = followers
        if followers:
            # A replica that has left the ISR no longer holds back the high watermark.
            self.maybe_increment_high_watermark(now_ms)
        else:
            self.log.update_high_watermark(end)
        return is_new

    def _adopt_isr(self, image: PartitionImage) -> None:
        """Adopt the ISR of the metadata, unless AlterPartition has already brought a newer one."""
        state = self.isr_state
        is_newer = (
            image.leader_epoch > self.leader_epoch or image.partition_epoch > state.partition_epoch
        )
        if is_newer or (image.partition_epoch == state.partition_epoch and not state.is_pending):
            self.isr_state = committed_isr(image.isr, image.partition_epoch)

    def update_min_isr(self) -> None:
        """Read min.insync.replicas from the log's configuration."""
        self.min_isr = effective_min_isr(
            self.log.config.min_insync_replicas, len(self.image.replicas)
        )

    def remove(self) -> None:
        self.apply(PartitionEvent.REMOVE)
        self._followers.clear()

    def leader_log(self, current_leader_epoch: int = NO_EPOCH) -> UnifiedLog:
        """The log, if this broker leads in the epoch that the client sent (-1: any).

        Raises KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER,
        KAFKA_STORAGE_ERROR.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise self._wrong_epoch(current_leader_epoch)
        if self.role is not _LEADER:
            raise self.not_leader()
        return self.log

    def local_log(self, current_leader_epoch: int = NO_EPOCH) -> UnifiedLog:
        """The log, whether this broker leads or follows, in the epoch that the client sent.

        Raises KafkaError as `leader_log` does, but not for a follower.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise self._wrong_epoch(current_leader_epoch)
        role = self.role
        if role is not _LEADER and role is not _FOLLOWER:
            raise self.not_leader()
        return self.log

    def _wrong_epoch(self, current_leader_epoch: int) -> KafkaError:
        if current_leader_epoch < self.leader_epoch:
            return KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"Leader epoch {current_leader_epoch} of {self.topic_partition} is older than "
                f"the current leader epoch {self.leader_epoch}.",
            )
        return KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"Leader epoch {current_leader_epoch} of {self.topic_partition} is newer than the "
            f"current leader epoch {self.leader_epoch}.",
        )

    def not_leader(self) -> KafkaError:
        """The error for a request that needs the leader."""
        if self.role is PartitionRole.OFFLINE:
            return KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The log directory of {self.topic_partition} is offline.",
            )
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"This broker does not lead {self.topic_partition}.",
        )

    def append_as_leader(
        self,
        records: memoryview,
        acks: int,
        origin: AppendOrigin,
        now_ms: int,
        checked_for: LogConfig | None = None,
    ) -> LogAppendInfo:
        """Append to the log, and move the high watermark if no follower holds it back.

        Raises KafkaError as `leader_log` and `UnifiedLog.append_as_leader` do, or with
        NOT_ENOUGH_REPLICAS, in which case nothing was appended.
        """
        if self.role is not _LEADER:
            raise self.not_leader()
        if acks == ACKS_ALL and len(self.isr_state.isr) < self.min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR : {len(self.isr_state.isr)} is insufficient to "
                f"satisfy the min.isr requirement of {self.min_isr} for partition "
                f"{self.topic_partition}",
            )
        log = self.log
        info = log.append_as_leader(records, self.leader_epoch, now_ms, origin, checked_for)
        if self._followers:
            self.maybe_increment_high_watermark(now_ms)
        else:
            log.update_high_watermark(log.bounds.log_end)
        return info

    def maybe_increment_high_watermark(self, now_ms: int) -> bool:
        """Move the high watermark as far as the replicas allow; return whether it moved."""
        log = self.log
        before = log.high_watermark
        view = IsrView(
            self._node_id,
            self.isr_state.maximal_isr,
            len(self.isr_state.isr) < self.min_isr,
            self._max_lag_ms,
            self._may_join,
        )
        after = next_high_watermark(
            before, log.log_end_offset, self._followers.values(), view, now_ms
        )
        if after == before:
            return False
        log.update_high_watermark(after)
        return True

    def _may_join(self, replica: Replica) -> bool:
        find = self._broker_of
        return find is None or is_eligible(find(replica.broker_id), replica.broker_epoch)

    def follower(self, broker_id: int) -> Replica | None:
        """As leader: what is known of another replica; None if it is not one of this partition."""
        return self._followers.get(broker_id)

    def check_follower(self, replica_id: int, *, knows_epoch: bool) -> Replica:
        """The replica of a broker that claims to be a follower (`followerReplicaOrThrow`).

        Raises KafkaError for a broker that isn't a replica: NOT_LEADER_OR_FOLLOWER, or
        UNKNOWN_LEADER_EPOCH if it knows the current leader epoch.
        """
        follower = self._followers.get(replica_id)
        if follower is None:
            raise KafkaError(
                # A broker that knows this epoch may have newer metadata, with other replicas.
                ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Broker {replica_id} is not a replica of {self.topic_partition}.",
            )
        return follower

    def update_follower(
        self,
        replica: ReplicaEpoch,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
        *,
        knows_epoch: bool = False,
    ) -> bool:
        """Record a follower's fetch; return whether the high watermark moved.

        Raises KafkaError as `check_follower` does, and NOT_LEADER_OR_FOLLOWER for a broker that has
        restarted since it sent the request (KIP-903).
        """
        replica_id, epoch = replica
        follower = self.check_follower(replica_id, knows_epoch=knows_epoch)
        broker = None if self._broker_of is None else self._broker_of(replica_id)
        if broker is not None and epoch != NO_BROKER_EPOCH and epoch < broker.epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Broker {replica_id} has fetched {self.topic_partition} with epoch {epoch}, but "
                f"its epoch is {broker.epoch}.",
            )
        follower.on_fetch(fetch_offset, log_start_offset, self.log.log_end_offset, now_ms, epoch)
        return self.maybe_increment_high_watermark(now_ms)

    def propose_expansion(self, replica_id: int) -> IsrProposal | None:
        """A proposal to add a follower that has caught up; the state is pending from then on."""
        state, follower = self.isr_state, self._followers.get(replica_id)
        if not self.is_leader or follower is None or state.is_pending or replica_id in state.isr:
            return None
        start = self.leader_epoch_start_offset
        if not has_reached(follower, self.log.high_watermark, start):
            return None
        if not self._may_join(follower):
            return None
        self.isr_state = expanding(state, replica_id)
        return self._proposal()

    def propose_shrink(self, now_ms: int) -> IsrProposal | None:
        """A proposal to remove the followers that lag; the state is pending from then on."""
        state, end = self.isr_state, self.log.log_end_offset
        lagging = out_of_sync(state, self._followers, end, now_ms, self._max_lag_ms)
        if not self.is_leader or not lagging:
            return None
        self.isr_state = shrinking(state, lagging)
        return self._proposal()

    def _proposal(self) -> IsrProposal:
        """The request for the requested ISR, with the broker epochs that the leader has seen."""
        find = self._broker_of
        members: list[ReplicaEpoch] = []
        for broker_id in self.isr_state.requested_isr:
            follower = self._followers.get(broker_id)
            epoch = None if follower is None else follower.broker_epoch
            if epoch is None and find is not None:
                # The leader itself, or a member that has not fetched in this term.
                broker = find(broker_id)
                epoch = None if broker is None else broker.epoch
            members.append(ReplicaEpoch(broker_id, NO_BROKER_EPOCH if epoch is None else epoch))
        return IsrProposal(self.leader_epoch, self.isr_state.partition_epoch, tuple(members))

    def awaits(self, proposal: IsrProposal) -> bool:
        """Whether a proposal is unanswered and not superseded by newer metadata."""
        state = self.isr_state
        return (
            self.is_leader
            and state.is_pending
            and (proposal.leader_epoch, proposal.partition_epoch)
            == (self.leader_epoch, state.partition_epoch)
        )

    def take_isr_answer(self, answer: IsrAnswer, now_ms: int) -> bool:
        """Adopt the state that the controller returned; return whether the high watermark moved."""
        after = after_answer(self.isr_state, self.leader_epoch, answer)
        if not self.is_leader or after is None:
            return False
        self.isr_state = after
        return self.maybe_increment_high_watermark(now_ms)

    def take_isr_error(self, proposal: IsrProposal, error: ErrorCode) -> ErrorReaction:
        """React to the controller's refusal of a proposal."""
        if not self.awaits(proposal):
            return ErrorReaction.WAIT
        reaction = reaction_to(error)
        if reaction is ErrorReaction.DECIDE_AGAIN:
            self.isr_state = after_refusal(self.isr_state)
        return reaction

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of all live replicas; -1 while one has never fetched."""
        starts = (
            follower.log_start_offset
            for follower in self._followers.values()
            if self._is_alive(follower.broker_id)
        )
        return min((self.log.log_start_offset, *starts))

    def _is_alive(self, broker_id: int) -> bool:
        if self._broker_of is None:
            return True
        broker = self._broker_of(broker_id)
        return broker is not None and not broker.fenced

    def check_replicated(self, required_offset: int) -> ErrorCode | None:
        """The acks=all result for records below `required_offset`; None while it must wait.

        NOT_ENOUGH_REPLICAS_AFTER_APPEND: replicated, but to too few replicas.
        """
        if self.role is not PartitionRole.LEADER:
            return self.not_leader().code
        if self.log.high_watermark < required_offset:
            return None
        if len(self.isr_state.maximal_isr) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def epoch_end_offset(self, epoch: int) -> EpochEndOffset:
        """The largest epoch not above `epoch` and its end offset; (-1, -1) if undefined.

        The current epoch enters the leader epoch cache with its first batch. Until then the epoch
        is empty: it starts and ends at the log end offset, where the cache's last epoch ends, too.
        """
        log = self.log
        end = log.log_end_offset
        if epoch == self.leader_epoch:
            return EpochEndOffset(epoch, end)
        latest = log.leader_epochs.latest_epoch
        if latest < epoch < self.leader_epoch:
            return EpochEndOffset(latest if latest >= 0 else epoch, end)
        return EpochEndOffset(*log.end_offset_for_epoch(epoch))

    def diverging_epoch(self, last_fetched_epoch: int, offset: int) -> EpochEndOffset | None:
        """Where the fetcher's log diverges from this one, or None (KIP-595).

        Raises KafkaError(OFFSET_OUT_OF_RANGE) if `offset` is below the log start offset, or the
        epoch is undefined.
        """
        if offset < self.log.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is below the log start offset {self.log.log_start_offset}.",
            )
        end = self.epoch_end_offset(last_fetched_epoch)
        if end.epoch < 0 or end.end_offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"The end offset of epoch {last_fetched_epoch} in {self.topic_partition} is "
                "unknown.",
            )
        if end.epoch < last_fetched_epoch or end.end_offset < offset:
            return end
        return None
