"""Checks commits and fetches of the offsets of a consumer protocol group.

The current member epoch in a commit proves that the member still has its partitions. With an older
epoch, the member may still commit for partitions that it was assigned at that epoch or before,
because no other member can have had them since (KIP-1251). Based on Kafka's ConsumerGroup.
"""

from collections.abc import Callable

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import Uuid
from ..offsets import CommitRequest, MemberClaim
from .consumer_group import ConsumerGroup, ConsumerGroupMember

PartitionCheck = Callable[[Uuid, int], ErrorCode]
"""Returns NONE or the error code of a commit for a partition."""


def check_commit(group: ConsumerGroup, request: CommitRequest) -> ErrorCode | PartitionCheck:
    """The error code of the whole commit, or the check for each partition.

    The codes are UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for a classic member;
    UNSUPPORTED_VERSION if the request's version is too old for STALE_MEMBER_EPOCH.
    """
    epoch = request.generation
    if epoch < 0 and not group.members:
        # An administrator may reset the offsets of an empty group.
        return _allow_all
    member = group.members.get(request.identity.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and not request.knows_group_id_not_found:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch > member.epoch:
        return stale_epoch(member)
    if epoch == member.epoch:
        return _allow_all

    def check(topic_id: Uuid, partition: int) -> ErrorCode:
        current = member.current
        since = current.assigned.get(
            (topic_id, partition), current.revoking.get((topic_id, partition))
        )
        return stale_epoch(member) if since is None or epoch < since else ErrorCode.NONE

    return check


def _allow_all(_topic_id: Uuid, _partition: int) -> ErrorCode:
    return ErrorCode.NONE


def stale_epoch(member: ConsumerGroupMember) -> ErrorCode:
    """The error code for a wrong member epoch, by the protocol of the member."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def check_fetch(group: ConsumerGroup, claim: MemberClaim) -> ErrorCode:
    """The error code of a fetch; NONE without a member id and epoch.

    The codes are UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for a classic member.
    """
    if claim.member_id is None and claim.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(claim.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member.epoch == claim.member_epoch else stale_epoch(member)
