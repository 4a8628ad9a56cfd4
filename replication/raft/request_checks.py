"""What makes a node refuse a request of the quorum, in Kafka's order (KafkaRaftClient).

A refusal is an error of the whole response or of its partition; the latter names the leader, too.
"""

from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from .raft_log import BOOTSTRAP_SNAPSHOT
from .raft_messages import FetchRequest, FetchSnapshotRequest, VoteRequest
from .voter_set import VoterKey

EPOCH_MAX = 2**31 - 2
"""A node that took up a later epoch could never hold an election again."""


class Refusal(NamedTuple):
    """Why a request is refused."""

    error_code: ErrorCode
    is_whole: bool = False
    """Whether the whole response has the error, rather than its partition."""


class Receiver(NamedTuple):
    """What the checks need to know of the node that got the request."""

    cluster_id: str
    key: VoterKey
    epoch: int
    is_leader: bool
    is_stopping: bool


def check_scope(
    cluster_id: str | None, is_metadata_partition: bool, receiver: Receiver
) -> Refusal | None:
    """104 for another cluster, 42 for another partition. No cluster id fits every cluster."""
    if cluster_id is not None and cluster_id != receiver.cluster_id:
        return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, is_whole=True)
    if not is_metadata_partition:
        return Refusal(ErrorCode.INVALID_REQUEST, is_whole=True)
    return None


def check_sender(sender_id: int, epoch: int, receiver: Receiver) -> Refusal | None:
    """74 for an epoch that is over, 42 for a sender without an id, or an epoch without a next."""
    if epoch < receiver.epoch:
        return Refusal(ErrorCode.FENCED_LEADER_EPOCH)
    if sender_id < 0 or epoch > EPOCH_MAX:
        return Refusal(ErrorCode.INVALID_REQUEST)
    return None


def check_voter_key(voter_id: int, directory_id: Uuid, receiver: Receiver) -> Refusal | None:
    """125 for a request that was meant for another node. Old versions name no node (-1)."""
    if voter_id < 0:
        return None
    own = receiver.key
    if voter_id != own.id or directory_id not in (ZERO_UUID, own.directory_id):
        return Refusal(ErrorCode.INVALID_VOTER_KEY)
    return None


def check_vote(request: VoteRequest, receiver: Receiver) -> Refusal | None:
    """The checks of a Vote before its epoch is looked at; `check_voter_key` comes after."""
    refusal = check_scope(request.cluster_id, request.is_metadata_partition, receiver)
    if refusal is not None:
        return refusal
    # A candidate asks in the epoch after that of its log; a pre-vote is asked in the same epoch.
    latest_epoch = request.replica_epoch - (0 if request.pre_vote else 1)
    if request.last_offset < 0 or not 0 <= request.last_offset_epoch <= latest_epoch:
        return Refusal(ErrorCode.INVALID_REQUEST)
    return check_sender(request.replica_id, request.replica_epoch, receiver)


def check_leader_epoch(epoch: int, receiver: Receiver) -> Refusal | None:
    """74, 75, 6 or 8: what only the leader of that epoch answers."""
    if epoch < receiver.epoch:
        return Refusal(ErrorCode.FENCED_LEADER_EPOCH)
    if epoch > receiver.epoch:
        return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
    if not receiver.is_leader:
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if receiver.is_stopping:
        return Refusal(ErrorCode.BROKER_NOT_AVAILABLE)
    return None


def check_fetch(request: FetchRequest, receiver: Receiver) -> Refusal | None:
    """The checks of a Fetch before its position in the log is looked at."""
    refusal = check_scope(request.cluster_id, request.is_metadata_partition, receiver)
    if refusal is not None:
        return refusal
    if (
        min(request.max_wait_ms, request.fetch_offset, request.last_fetched_epoch) < 0
        or request.last_fetched_epoch > request.current_leader_epoch
    ):
        return Refusal(ErrorCode.INVALID_REQUEST)
    return check_leader_epoch(request.current_leader_epoch, receiver)


def check_fetch_snapshot(request: FetchSnapshotRequest, receiver: Receiver) -> Refusal | None:
    """The checks of a FetchSnapshot before its snapshot is looked for."""
    refusal = check_scope(request.cluster_id, request.is_single_partition, receiver)
    if refusal is not None:
        return refusal
    if not request.is_metadata_partition:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return check_leader_epoch(request.current_leader_epoch, receiver)


def check_snapshot_position(request: FetchSnapshotRequest, size: int | None) -> Refusal | None:
    """98 for a snapshot that is not there or holds nothing, 99 for a position outside it."""
    if size is None or request.snapshot_id == BOOTSTRAP_SNAPSHOT:
        return Refusal(ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= request.position < size:
        return Refusal(ErrorCode.POSITION_OUT_OF_RANGE)
    return None
