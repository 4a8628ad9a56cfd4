"""Requests and responses of the quorum as values; the shell translates them from and to the wire.

Fields have the names of Kafka's schemas. Each value is about the one partition of the metadata log,
so topics and partitions are left out: the shell sets `is_metadata_partition` to False if a request
names anything else, or more or less than one partition.

`error_code` is the error of the whole response, `partition_error_code` that of the partition. A
response with an error of the whole has no partition.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from ...storage.remote.remote_lineage import OffsetAndEpoch
from .voter_set import Address, KRaftVersionRange, VoterKey

UNKNOWN_LEADER = -1
MAX_HIGH_WATERMARK = (1 << 63) - 1
"""What a fetch before version 18 says of its high watermark: never behind the leader's."""


class NodeEndpoint(NamedTuple):
    """The address of a leader that a response names."""

    node_id: int
    address: Address


class VoteRequest(NamedTuple):
    """Ask for a vote in an epoch, or whether it would be granted (pre-vote, KIP-996)."""

    cluster_id: str | None
    voter_id: int
    """The node that is asked; -1 before version 1."""
    voter_directory_id: Uuid
    replica_id: int
    """The node that asks."""
    replica_directory_id: Uuid
    replica_epoch: int
    last_offset: int
    """The end offset of the asking node's log."""
    last_offset_epoch: int
    pre_vote: bool = False
    is_metadata_partition: bool = True


class VoteResponse(NamedTuple):
    """The vote, and what the answering node knows of the leader."""

    error_code: ErrorCode = ErrorCode.NONE
    partition_error_code: ErrorCode = ErrorCode.NONE
    leader_id: int = UNKNOWN_LEADER
    leader_epoch: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()
    vote_granted: bool = False


class BeginQuorumEpochRequest(NamedTuple):
    """A leader says that it has won the election of its epoch."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: Uuid
    leader_id: int
    leader_epoch: int
    leader_endpoints: tuple[tuple[str, Address], ...] = ()
    """Pairs of listener and address; empty in version 0."""
    is_metadata_partition: bool = True


class BeginQuorumEpochResponse(NamedTuple):
    """What the answering node knows of the leader."""

    error_code: ErrorCode = ErrorCode.NONE
    partition_error_code: ErrorCode = ErrorCode.NONE
    leader_id: int = UNKNOWN_LEADER
    leader_epoch: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


class EndQuorumEpochRequest(NamedTuple):
    """A leader says that it resigns, and who should follow it, best first."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    preferred_candidates: tuple[VoterKey, ...] = ()
    """From version 0's `preferred_successors` the keys have no directory."""
    leader_endpoints: tuple[tuple[str, Address], ...] = ()
    is_metadata_partition: bool = True


class EndQuorumEpochResponse(NamedTuple):
    """What the answering node knows of the leader."""

    error_code: ErrorCode = ErrorCode.NONE
    partition_error_code: ErrorCode = ErrorCode.NONE
    leader_id: int = UNKNOWN_LEADER
    leader_epoch: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


class FetchRequest(NamedTuple):
    """Ask for the records from an offset on."""

    cluster_id: str | None
    replica_id: int
    replica_directory_id: Uuid
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int = MAX_HIGH_WATERMARK
    max_wait_ms: int = 0
    is_metadata_partition: bool = True


class FetchedBatch(Protocol):
    """A record batch of a response: `clients/record/batch.py` has it."""

    @property
    def base_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...

    @property
    def partition_leader_epoch(self) -> int: ...


class FetchResponse(NamedTuple):
    """Records, or the offset to truncate to, or the snapshot to fetch first.

    The core's own responses have no `records`: see `ReplyWithRecords`. In a response to this node
    the shell has checked each batch, and left out the first damaged one with all after it; if that
    leaves none, it calls `RaftCore.handle_failure` instead, so that a pause comes before the retry.
    """

    error_code: ErrorCode = ErrorCode.NONE
    partition_error_code: ErrorCode = ErrorCode.NONE
    leader_id: int = UNKNOWN_LEADER
    leader_epoch: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging_epoch: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    records: Sequence[FetchedBatch] = ()


class FetchSnapshotRequest(NamedTuple):
    """Ask for bytes of a snapshot (KIP-630)."""

    cluster_id: str | None
    replica_id: int
    replica_directory_id: Uuid
    current_leader_epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int
    is_single_partition: bool = True
    """False if the request names more or less than one partition."""
    is_metadata_partition: bool = True


class FetchSnapshotResponse(NamedTuple):
    """Bytes of a snapshot. The core's own responses have none: see `ReplyWithSnapshotBytes`."""

    error_code: ErrorCode = ErrorCode.NONE
    partition_error_code: ErrorCode = ErrorCode.NONE
    leader_id: int = UNKNOWN_LEADER
    leader_epoch: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()
    snapshot_id: OffsetAndEpoch = OffsetAndEpoch(-1, -1)
    size: int = 0
    position: int = 0
    unaligned_records: bytes | memoryview = b""


class ReplicaStatus(NamedTuple):
    """What the leader knows of one replica; times in milliseconds, -1 where unknown."""

    replica_id: int
    replica_directory_id: Uuid = ZERO_UUID
    log_end_offset: int = -1
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


class QuorumDescription(NamedTuple):
    """The data of a DescribeQuorum response."""

    partition_error_code: ErrorCode = ErrorCode.NONE
    leader_id: int = UNKNOWN_LEADER
    leader_epoch: int = 0
    high_watermark: int = -1
    current_voters: tuple[ReplicaStatus, ...] = ()
    observers: tuple[ReplicaStatus, ...] = ()


class AddVoterRequest(NamedTuple):
    """AddRaftVoter: make an observer a voter."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: Uuid
    listeners: tuple[tuple[str, Address], ...]
    timeout_ms: int
    ack_when_committed: bool = True
    kraft_version: KRaftVersionRange | None = None
    """What the new voter supports; None until the shell has asked it."""
    is_unreachable: bool = False
    """Whether the shell has asked it in vain."""


class RemoveVoterRequest(NamedTuple):
    """RemoveRaftVoter: make a voter an observer."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: Uuid
    timeout_ms: int
    ack_when_committed: bool = True


class UpdateVoterRequest(NamedTuple):
    """UpdateRaftVoter: a voter sends its endpoints and the versions that it supports."""

    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: Uuid
    listeners: tuple[tuple[str, Address], ...]
    kraft_version: KRaftVersionRange


class UpdateVoterResponse(NamedTuple):
    """The answer to UpdateRaftVoter."""

    error_code: ErrorCode = ErrorCode.NONE
    partition_error_code: ErrorCode = ErrorCode.NONE
    """The message has one error; it is here if the response names the leader."""
    leader_id: int = UNKNOWN_LEADER
    leader_epoch: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


class VoterChangeResponse(NamedTuple):
    """The answer to AddRaftVoter and RemoveRaftVoter."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    leader_id: int = UNKNOWN_LEADER
    leader_epoch: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


VoterChangeRequest = AddVoterRequest | RemoveVoterRequest
RaftRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | UpdateVoterRequest
)
RaftResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
)
