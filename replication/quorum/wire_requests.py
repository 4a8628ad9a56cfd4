"""Requests of the quorum, from the core's values to the wire and back.

The core speaks of one partition. A request that names another one, or more or less than one, comes
back with `is_metadata_partition` False, and the core refuses it.
"""

from collections.abc import Sequence

from ...clients.kafka_uuid import Uuid
from ...clients.protocol.messages import (
    begin_quorum_epoch_request as begin,
    end_quorum_epoch_request as end,
    fetch,
    fetch_snapshot_request as snapshot,
    update_raft_voter as update,
    vote_request as vote,
)
from ...clients.protocol.messages.quorum_records import KRaftVersionFeature
from ...clients.protocol.messages.raft_endpoints import LeaderEndpoint
from ...clients.protocol.schema import Message
from ...storage.manager.log_dirs import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID
from ...storage.remote.remote_lineage import OffsetAndEpoch
from ..raft import raft_messages as core
from ..raft.voter_set import Address, KRaftVersionRange, VoterKey

_FETCH_RESPONSE_BYTES_MAX = 0x7FFFFFFF
_FIRST_WITH_TOPIC_IDS = 13
_FIRST_WITH_REPLICA_STATE = 15


def wire_request(request: core.RaftRequest, fetch_max_bytes: int = 1 << 20) -> Message:
    """The message to be sent. `fetch_max_bytes` is `controller.quorum.fetch.max.bytes`.

    Neither a pre-vote before version 2 of Vote nor a Fetch before version 15 can be encoded.
    """
    match request:
        case core.VoteRequest():
            return _vote(request)
        case core.BeginQuorumEpochRequest():
            return _begin(request)
        case core.EndQuorumEpochRequest():
            return _end(request)
        case core.FetchRequest():
            return _fetch(request, fetch_max_bytes)
        case core.FetchSnapshotRequest():
            return _snapshot(request)
        case core.UpdateVoterRequest():
            return _update(request)


def _vote(request: core.VoteRequest) -> Message:
    partition = vote.PartitionData(
        replica_epoch=request.replica_epoch,
        replica_id=request.replica_id,
        replica_directory_id=request.replica_directory_id,
        voter_directory_id=request.voter_directory_id,
        last_offset_epoch=request.last_offset_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    topic = vote.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(
        cluster_id=request.cluster_id, voter_id=request.voter_id, topics=[topic]
    )


def _begin(request: core.BeginQuorumEpochRequest) -> Message:
    partition = begin.PartitionData(
        voter_directory_id=request.voter_directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter_id,
        topics=[begin.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_endpoints(request.leader_endpoints),
    )


def _end(request: core.EndQuorumEpochRequest) -> Message:
    partition = end.PartitionData(
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        preferred_successors=[key.id for key in request.preferred_candidates],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in request.preferred_candidates
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[end.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_endpoints(request.leader_endpoints),
    )


def _fetch(request: core.FetchRequest, max_bytes: int) -> Message:
    partition = fetch.FetchPartition(
        current_leader_epoch=request.current_leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=max_bytes,
        replica_directory_id=request.replica_directory_id,
        high_watermark=request.high_watermark,
    )
    topic = fetch.FetchTopic(
        topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return fetch.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=request.replica_id),
        max_wait_ms=request.max_wait_ms,
        min_bytes=0,
        max_bytes=_FETCH_RESPONSE_BYTES_MAX,
        topics=[topic],
    )


def _snapshot(request: core.FetchSnapshotRequest) -> Message:
    partition = snapshot.PartitionSnapshot(
        current_leader_epoch=request.current_leader_epoch,
        snapshot_id=snapshot.SnapshotId(
            end_offset=request.snapshot_id.offset, epoch=request.snapshot_id.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica_directory_id,
    )
    return snapshot.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica_id,
        max_bytes=request.max_bytes,
        topics=[snapshot.TopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
    )


def _update(request: core.UpdateVoterRequest) -> Message:
    lowest, highest = request.kraft_version
    return update.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.current_leader_epoch,
        voter_id=request.voter_id,
        voter_directory_id=request.voter_directory_id,
        listeners=[
            update.Listener(name=name, host=address.host, port=address.port)
            for name, address in request.listeners
        ],
        kraft_version_feature=KRaftVersionFeature(
            min_supported_version=lowest, max_supported_version=highest
        ),
    )


def _endpoints(endpoints: Sequence[tuple[str, Address]]) -> list[LeaderEndpoint]:
    return [
        LeaderEndpoint(name=name, host=address.host, port=address.port)
        for name, address in endpoints
    ]


def core_request(message: Message, version: int) -> core.RaftRequest:
    """The value that the core handles, of a request that was received in this version."""
    match message:
        case vote.VoteRequest():
            return _core_vote(message)
        case begin.BeginQuorumEpochRequest():
            return _core_begin(message)
        case end.EndQuorumEpochRequest():
            return _core_end(message, version)
        case fetch.FetchRequest():
            return _core_fetch(message, version)
        case snapshot.FetchSnapshotRequest():
            return _core_snapshot(message)
        case update.UpdateRaftVoterRequest():
            return _core_update(message)
        case _:
            raise AssertionError(f"{type(message).__name__} is not a request of the quorum.")


def _core_vote(message: vote.VoteRequest) -> core.VoteRequest:
    topic = message.topics[0] if message.topics else vote.TopicData()
    partition = topic.partitions[0] if topic.partitions else vote.PartitionData()
    return core.VoteRequest(
        cluster_id=message.cluster_id,
        voter_id=message.voter_id,
        voter_directory_id=partition.voter_directory_id,
        replica_id=partition.replica_id,
        replica_directory_id=partition.replica_directory_id,
        replica_epoch=partition.replica_epoch,
        last_offset=partition.last_offset,
        last_offset_epoch=partition.last_offset_epoch,
        pre_vote=partition.pre_vote,
        is_metadata_partition=_names_metadata(message.topics),
    )


def _core_begin(message: begin.BeginQuorumEpochRequest) -> core.BeginQuorumEpochRequest:
    topic = message.topics[0] if message.topics else begin.TopicData()
    partition = topic.partitions[0] if topic.partitions else begin.PartitionData()
    return core.BeginQuorumEpochRequest(
        cluster_id=message.cluster_id,
        voter_id=message.voter_id,
        voter_directory_id=partition.voter_directory_id,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        leader_endpoints=_core_endpoints(message.leader_endpoints),
        is_metadata_partition=_names_metadata(message.topics),
    )


def _core_end(message: end.EndQuorumEpochRequest, version: int) -> core.EndQuorumEpochRequest:
    topic = message.topics[0] if message.topics else end.TopicData()
    partition = topic.partitions[0] if topic.partitions else end.PartitionData()
    candidates = (
        [
            VoterKey(candidate.candidate_id, candidate.candidate_directory_id)
            for candidate in partition.preferred_candidates
        ]
        if version >= 1
        else [VoterKey(successor) for successor in partition.preferred_successors]
    )
    return core.EndQuorumEpochRequest(
        cluster_id=message.cluster_id,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        preferred_candidates=tuple(candidates),
        leader_endpoints=_core_endpoints(message.leader_endpoints),
        is_metadata_partition=_names_metadata(message.topics),
    )


def _core_fetch(message: fetch.FetchRequest, version: int) -> core.FetchRequest:
    topic = message.topics[0] if message.topics else fetch.FetchTopic()
    partition = topic.partitions[0] if topic.partitions else fetch.FetchPartition()
    by_id = version >= _FIRST_WITH_TOPIC_IDS
    state = message.replica_state
    return core.FetchRequest(
        cluster_id=message.cluster_id,
        replica_id=state.replica_id if version >= _FIRST_WITH_REPLICA_STATE else message.replica_id,
        replica_directory_id=partition.replica_directory_id,
        current_leader_epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=message.max_wait_ms,
        is_metadata_partition=_is_metadata(
            [
                (
                    _name(each.topic_id) if by_id else each.topic,
                    [p.partition for p in each.partitions],
                )
                for each in message.topics
            ]
        ),
    )


def _core_snapshot(message: snapshot.FetchSnapshotRequest) -> core.FetchSnapshotRequest:
    topic = message.topics[0] if message.topics else snapshot.TopicSnapshot()
    partition = topic.partitions[0] if topic.partitions else snapshot.PartitionSnapshot()
    named = [(each.name, [p.partition for p in each.partitions]) for each in message.topics]
    return core.FetchSnapshotRequest(
        cluster_id=message.cluster_id,
        replica_id=message.replica_id,
        replica_directory_id=partition.replica_directory_id,
        current_leader_epoch=partition.current_leader_epoch,
        snapshot_id=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=message.max_bytes,
        is_single_partition=_is_single(named),
        is_metadata_partition=_is_metadata(named),
    )


def _core_update(message: update.UpdateRaftVoterRequest) -> core.UpdateVoterRequest:
    versions = message.kraft_version_feature
    return core.UpdateVoterRequest(
        cluster_id=message.cluster_id,
        current_leader_epoch=message.current_leader_epoch,
        voter_id=message.voter_id,
        voter_directory_id=message.voter_directory_id,
        listeners=tuple(
            (listener.name, Address(listener.host, listener.port)) for listener in message.listeners
        ),
        kraft_version=KRaftVersionRange(
            versions.min_supported_version, versions.max_supported_version
        ),
    )


def _name(topic_id: Uuid) -> str:
    return CLUSTER_METADATA_TOPIC if topic_id == METADATA_TOPIC_ID else ""


def _names_metadata(
    topics: Sequence[vote.TopicData] | Sequence[begin.TopicData] | Sequence[end.TopicData],
) -> bool:
    return _is_metadata(
        [(topic.topic_name, [p.partition_index for p in topic.partitions]) for topic in topics]
    )


def _is_single(named: Sequence[tuple[str, Sequence[int]]]) -> bool:
    return len(named) == 1 and len(named[0][1]) == 1


def _is_metadata(named: Sequence[tuple[str, Sequence[int]]]) -> bool:
    return _is_single(named) and named[0] == (CLUSTER_METADATA_TOPIC, [0])


def _core_endpoints(endpoints: Sequence[LeaderEndpoint]) -> tuple[tuple[str, Address], ...]:
    return tuple((endpoint.name, Address(endpoint.host, endpoint.port)) for endpoint in endpoints)
