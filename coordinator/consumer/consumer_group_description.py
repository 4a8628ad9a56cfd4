"""The description of a consumer protocol group for ConsumerGroupDescribe (KIP-848)."""

from collections.abc import Sequence
from typing import NamedTuple

from ..group_config import GroupCoordinatorConfig
from .consumer_group import ConsumerGroup, ConsumerGroupMember
from .topic_partitions import NOTHING, Partitions


class ConsumerMemberDescription(NamedTuple):
    """A member: its metadata, its current assignment and its target assignment.

    `assigned` includes the partitions that the member must revoke and has not revoked yet.
    """

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assigned: Partitions
    target: Partitions
    is_classic: bool


class ConsumerGroupDescription(NamedTuple):
    """A group; `assignor` is the one that most of its members prefer."""

    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[ConsumerMemberDescription]


def described_consumers(
    group: ConsumerGroup, config: GroupCoordinatorConfig
) -> ConsumerGroupDescription:
    """Describe a group as it is now."""

    def member_of(member: ConsumerGroupMember) -> ConsumerMemberDescription:
        said = member.metadata
        return ConsumerMemberDescription(
            member.member_id,
            said.instance_id,
            said.rack_id,
            member.epoch,
            said.client_id,
            said.client_host,
            said.subscribed_topic_names,
            said.subscribed_topic_regex,
            frozenset(member.current.assigned) | frozenset(member.current.revoking),
            group.targets.get(member.member_id, NOTHING),
            member.is_classic,
        )

    return ConsumerGroupDescription(
        group.state.value,
        group.epoch,
        group.target_epoch,
        group.preferred_assignor() or config.consumer_assignors[0],
        [member_of(member) for member in group.members.values()],
    )
