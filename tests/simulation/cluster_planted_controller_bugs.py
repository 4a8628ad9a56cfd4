"""Rules of the controllers of a whole cluster, each broken once: see `cluster_planted_bugs.py`."""

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tierlog.broker.cluster_member import ClusterMember
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.brokers import broker_transitions
from tierlog.replication.control.leadership import alter_partition, partition_change
from tierlog.replication.control.leadership.partition_change import (
    Assignment,
    Candidates,
    LiveBrokers,
)
from tierlog.replication.leader.hosted_partitions import HostedPartitions
from tierlog.replication.metadata import cluster_image
from tierlog.replication.metadata.cluster_image import BrokerImage, ClusterImage, PartitionImage
from tierlog.replication.metadata.metadata_records import NO_LEADER_CHANGE
from tierlog.replication.raft import elections

Plant = Callable[[pytest.MonkeyPatch], None]
Loose: TypeAlias = Any
"""What the patched function gets or gives, which is handed on."""
_private: Callable[[object, str], Loose] = getattr


def _no_error(*_: object) -> ErrorCode:
    return ErrorCode.NONE


def _nothing(*_: object, **__: object) -> None:
    return None


def elects_fenced_brokers(patch: pytest.MonkeyPatch) -> None:
    """A leader may be fenced."""

    def is_active(self: LiveBrokers, broker_id: int) -> bool:
        return broker_id in self.brokers

    patch.setattr(LiveBrokers, "is_active", is_active)


def elects_outside_the_isr(patch: pytest.MonkeyPatch) -> None:
    """Any live replica may lead."""

    def is_valid(self: Candidates, broker_id: int) -> bool:
        return self.may_lead(broker_id)

    patch.setattr(Candidates, "is_valid", is_valid)


def elects_uncleanly(patch: pytest.MonkeyPatch) -> None:
    """Without anybody in sync, whoever lives leads."""
    original = partition_change.choose_leader

    def choose_leader(_: object, candidates: Candidates) -> object:
        return original(partition_change.Election.UNCLEAN, candidates)

    patch.setattr(partition_change, "choose_leader", choose_leader)


def forgets_to_raise_the_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """Another leader has the epoch of the one before."""
    original = _private(cluster_image, "changed_partition")

    def changed(before: PartitionImage, record: Loose) -> PartitionImage:
        after: PartitionImage = original(before, record)
        if record.leader == NO_LEADER_CHANGE:
            return after
        return PartitionImage(
            **{
                name: getattr(after, name)
                for name in PartitionImage.__dataclass_fields__
                if name != "leader_epoch"
            },
            leader_epoch=before.leader_epoch,
        )

    patch.setattr(cluster_image, "changed_partition", changed)


def completes_before_it_has_caught_up(patch: pytest.MonkeyPatch) -> None:
    """A reassignment ends at once, whoever is in sync."""
    original = partition_change.complete

    def completed(assignment: Assignment) -> Assignment:
        isr = {*assignment.isr, *assignment.adding}
        after = original(assignment._replace(isr=list(isr)))
        left = [each for each in after.isr if each in assignment.isr]
        return after._replace(isr=left) if left else assignment

    patch.setattr(partition_change, "complete", completed)


def fences_and_moves_nothing(patch: pytest.MonkeyPatch) -> None:
    """A fenced broker stays the leader and in the ISRs."""

    def fence_records(_: ClusterImage, broker: BrokerImage, __: object) -> list[Message]:
        return [_private(broker_transitions, "_change")(broker, fenced=1)]

    for module in _users_of("fence_records"):
        patch.setattr(module, "fence_records", fence_records)


def stops_without_handing_over(patch: pytest.MonkeyPatch) -> None:
    """A broker that stops cleanly leads what it leads until it is gone."""

    async def leave(_: object) -> None:
        """Tells nobody."""

    patch.setattr(ClusterMember, "leave", leave)


def _users_of(name: str) -> list[Loose]:
    """The modules that have imported a function of `broker_transitions`."""
    return [
        module
        for title, module in list(sys.modules.items())
        if title.startswith("tierlog.replication") and hasattr(module, name)
    ]


def forgets_the_life_before(patch: pytest.MonkeyPatch) -> None:
    """A broker that registers again stays in the ISRs and leads on."""

    def restart_records(*_: object) -> list[Message]:
        return []

    for module in _users_of("restart_records"):
        patch.setattr(module, "restart_records", restart_records)


def keeps_the_epoch_of_the_last_incarnation(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at the broker epochs of an ISR that a leader asks for."""

    def is_eligible(image: ClusterImage, member: Loose) -> bool:
        return member.broker_id in image.brokers

    patch.setattr(alter_partition, "_is_eligible", is_eligible)


def takes_stale_isrs(patch: pytest.MonkeyPatch) -> None:
    """A leader's ISR counts, whatever has happened since it asked."""
    patch.setattr(alter_partition, "_check_epochs", _no_error)


def votes_for_any_log(patch: pytest.MonkeyPatch) -> None:
    """A controller may lead whatever it lacks."""
    original = elections.can_grant_vote

    def can_grant_vote(state: Loose, key: Loose, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        return original(state, key, is_up_to_date=True, is_pre_vote=is_pre_vote)

    patch.setattr(elections, "can_grant_vote", can_grant_vote)


def keeps_replicas_that_were_moved_away(patch: pytest.MonkeyPatch) -> None:
    """The log of a partition that others have now stays."""
    patch.setattr(HostedPartitions, "_delete_logs", _nothing)


CONTROLLER_BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        elects_fenced_brokers,
        elects_outside_the_isr,
        elects_uncleanly,
        forgets_to_raise_the_leader_epoch,
        completes_before_it_has_caught_up,
        fences_and_moves_nothing,
        stops_without_handing_over,
        forgets_the_life_before,
        keeps_the_epoch_of_the_last_incarnation,
        takes_stale_isrs,
        votes_for_any_log,
        keeps_replicas_that_were_moved_away,
    )
}
"""By name."""
