"""Who may commit and fetch the offsets of a group of the consumer protocol.

A member proves by its epoch that it still has what it commits for. One that lags behind the group
may commit for the partitions that it was given no later than at the epoch that it knows, for nobody
else can have had them since (KIP-1251). After Kafka's ConsumerGroup.
"""

from collections.abc import Callable

from ....clients.errors import ErrorCode
from ....clients.kafka_uuid import Uuid
from ..offsets import CommitRequest, MemberClaim
from .consumer_group import ConsumerGroup, ConsumerGroupMember

PartitionCheck = Callable[[Uuid, int], ErrorCode]
"""Whether a member may commit for a partition."""


def check_commit(group: ConsumerGroup, request: CommitRequest) -> ErrorCode | PartitionCheck:
    """Why nothing can be committed, or what is to be asked of every partition.

    UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; UNSUPPORTED_VERSION for a member whose client cannot be
    told that; ILLEGAL_GENERATION for one of the classic protocol.
    """
    epoch = request.generation
    if epoch < 0 and not group.members:
        # An administrator resets the offsets of a group that is not in use.
        return _anything
    member = group.members.get(request.identity.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and not request.knows_group_id_not_found:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch > member.epoch:
        return stale_epoch(member)
    if epoch == member.epoch:
        return _anything

    def check(topic_id: Uuid, partition: int) -> ErrorCode:
        held = member.held
        since = held.assigned.get((topic_id, partition), held.revoking.get((topic_id, partition)))
        return stale_epoch(member) if since is None or epoch < since else ErrorCode.NONE

    return check


def _anything(_topic_id: Uuid, _partition: int) -> ErrorCode:
    return ErrorCode.NONE


def stale_epoch(member: ConsumerGroupMember) -> ErrorCode:
    """The error code for a wrong member epoch, by the protocol of the member."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def check_fetch(group: ConsumerGroup, claim: MemberClaim) -> ErrorCode:
    """NONE for who does not claim to be a member; UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""
    if claim.member_id is None and claim.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(claim.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member.epoch == claim.member_epoch else stale_epoch(member)
