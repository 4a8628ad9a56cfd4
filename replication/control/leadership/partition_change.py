"""Builds every change of an existing partition (`PartitionChangeBuilder` of Kafka 4.3.1). Pure.

A caller says what it wants of the partition (`PartitionTarget`), and `build_change` works out the
record, in this order:

1. a reassignment completes if the wanted ISR allows it (KIP-455);
2. replicas that leave a small ISR become eligible leader replicas (ELR, KIP-966);
3. a leader is elected (`choose_leader`): the present one stays while it may;
4. a replica that is removed forces a new leader epoch, even under the same leader;
5. the record gets what differs: ELR, ISR, last known leader, assignment, directories, recovery.

Rules:

- the leader epoch rises exactly if the record names a leader; the partition epoch always rises;
- a leader is in the ISR, its broker is active and its log directory online. If the ISR is empty, a
  member of the ELR is elected, and then the last known leader;
- an unclean election takes any active replica. It becomes the whole ISR, and the partition is
  RECOVERING until that leader says otherwise (KIP-704). It happens if the topic allows it
  (`unclean.leader.election.enable`) or a client asks for it;
- without ELR the last member of the ISR stays in it, and the partition just has no leader.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from ....clients.kafka_uuid import ZERO_UUID, Uuid
from ...metadata.cluster_image import BrokerImage, PartitionImage
from ...metadata.metadata_records import NO_LEADER, NO_LEADER_CHANGE, PartitionChangeRecord
from ..partition_control import directory_of, is_online

RECOVERED, RECOVERING = 0, 1
"""Leader recovery states (`LeaderRecoveryState`)."""


class Election(Enum):
    """Which leaders may be elected (`PartitionChangeBuilder.Election`)."""

    PREFERRED = "the first replica if possible, else as ONLINE"
    ONLINE = "the present leader if possible, else the first one without loss of records"
    UNCLEAN = "as ONLINE, else any active replica"


class PartitionRules(NamedTuple):
    """The configuration and features that a change depends on."""

    # min.insync.replicas, limited to the replication factor.
    effective_min_isr: int
    has_elr: bool


class PartitionTarget(NamedTuple):
    """What is wanted of a partition; None means no change."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    recovery_state: int | None = None
    # New log directories, by broker.
    directories: Mapping[int, Uuid] = MappingProxyType({})
    # Brokers that may have lost records: they are not eligible leader replicas.
    unclean_shutdown: Collection[int] = ()
    # Gives the present leader a new epoch: it may have lost records that others know of.
    renews_leader: bool = False


class LiveBrokers(NamedTuple):
    """Which brokers may lead (`LeaderAcceptor`).

    `arriving` counts as active before its record is replayed, `leaving` no longer does.
    """

    brokers: Mapping[int, BrokerImage]
    arriving: int | None = None
    leaving: int | None = None

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker may lead at all."""
        if broker_id == self.leaving:
            return False
        broker = self.brokers.get(broker_id)
        return broker is not None and (broker_id == self.arriving or broker.is_active)

    def may_lead(self, broker_id: int, directory: Uuid | None) -> bool:
        """Whether it may lead with its replica in this directory; None if it has no replica."""
        return (
            directory is not None
            and self.is_active(broker_id)
            and is_online(directory, self.brokers[broker_id].directories)
        )

    def directory_of_new(self, broker_id: int) -> Uuid:
        """The log directory of a new replica."""
        return directory_of(self.brokers[broker_id])


class ElectedLeader(NamedTuple):
    """The result of an election; `NO_LEADER` if nobody can lead."""

    broker_id: int
    is_unclean: bool = False


class Candidates(NamedTuple):
    """Who may be elected, and on what grounds."""

    leader: int
    replicas: Sequence[int]
    isr: Collection[int]
    elr: Collection[int]
    # Not used unless the cluster has ELR.
    last_known: Sequence[int]
    may_lead: Callable[[int], bool]

    def is_valid(self, broker_id: int) -> bool:
        """Whether a replica can lead without loss of records."""
        return (
            broker_id in self.isr or (not self.isr and broker_id in self.elr)
        ) and self.may_lead(broker_id)


def choose_leader(election: Election, candidates: Candidates) -> ElectedLeader:
    """Elect a leader (`PartitionChangeBuilder.electLeader`)."""
    order = [candidates.leader, *candidates.replicas]
    if election is Election.PREFERRED:
        order = [candidates.replicas[0], *order]
    for broker_id in order:
        if candidates.is_valid(broker_id):
            return ElectedLeader(broker_id)
    if not candidates.isr and not candidates.elr and len(candidates.last_known) == 1:
        (last_known,) = candidates.last_known
        if candidates.may_lead(last_known):
            return ElectedLeader(last_known, is_unclean=True)
    if election is Election.UNCLEAN:
        for broker_id in candidates.replicas:
            if candidates.may_lead(broker_id):
                return ElectedLeader(broker_id, is_unclean=True)
    return ElectedLeader(NO_LEADER)


class Assignment(NamedTuple):
    """The replicas of a partition during and after a reassignment, and its ISR."""

    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]
    isr: Sequence[int]


def complete(assignment: Assignment) -> Assignment:
    """The assignment once its reassignment is over; the same one if it cannot end yet (KIP-455).

    It ends when all added replicas are in sync. If more are removed than added, all that stay must
    be in sync (`PartitionReassignmentReplicas.maybeCompleteReassignment`).
    """
    adding, removing = assignment.adding, assignment.removing
    if not adding and not removing:
        return assignment
    isr = [replica for replica in assignment.isr if replica not in removing]
    replicas = [replica for replica in assignment.replicas if replica not in removing]
    needed = {*adding, *replicas} if len(adding) < len(removing) else set(adding)
    if not isr or not replicas or not needed <= set(isr):
        return assignment
    return Assignment(replicas, [], [], isr)


class _Draft:
    """The new partition, while it is worked out."""

    __slots__ = ("adding", "elr", "isr", "record", "removing", "replicas")

    def __init__(
        self,
        replicas: list[int],
        adding: list[int],
        removing: list[int],
        isr: list[int],
        elr: list[int],
    ) -> None:
        self.replicas = replicas
        self.adding = adding
        self.removing = removing
        self.isr = isr
        self.elr = elr
        self.record = PartitionChangeRecord()


def build_change(
    before: PartitionImage,
    target: PartitionTarget,
    election: Election,
    rules: PartitionRules,
    live: LiveBrokers,
) -> PartitionChangeRecord | None:
    """The record that brings a partition to its target; None if it would change nothing.

    The caller sets the topic id and the partition's number.
    """
    assignment = complete(
        Assignment(
            before.replicas if target.replicas is None else target.replicas,
            before.adding_replicas if target.adding is None else target.adding,
            before.removing_replicas if target.removing is None else target.removing,
            before.isr if target.isr is None else target.isr,
        )
    )
    draft = _Draft(
        replicas=list(assignment.replicas),
        adding=list(assignment.adding),
        removing=list(assignment.removing),
        isr=list(assignment.isr),
        elr=list(before.elr),
    )
    if rules.has_elr:
        _fill_elr(draft, before, target, rules)
    _elect(draft, before, target, election, rules, live)
    if draft.record.leader == NO_LEADER_CHANGE and (
        target.renews_leader or not set(before.replicas) <= set(draft.replicas)
    ):
        draft.record.leader = before.leader
    _set_isr_and_elr(draft, before, rules)
    _set_assignment(draft, before, target, live)
    recovery = target.recovery_state
    if recovery is not None and recovery != before.leader_recovery_state:
        draft.record.leader_recovery_state = recovery
    return draft.record if draft.record != PartitionChangeRecord() else None


def _fill_elr(
    draft: _Draft, before: PartitionImage, target: PartitionTarget, rules: PartitionRules
) -> None:
    """Keep former ISR members as eligible leaders while the ISR is below min ISR."""
    if len(draft.isr) >= rules.effective_min_isr:
        draft.elr = []
        return
    former = dict.fromkeys((*before.elr, *before.isr))
    draft.elr = [
        each
        for each in former
        if each not in draft.isr
        and each not in target.unclean_shutdown
        # A removed replica is deleted: it cannot lead again.
        and each in draft.replicas
    ]


def _elect(
    draft: _Draft,
    before: PartitionImage,
    target: PartitionTarget,
    election: Election,
    rules: PartitionRules,
    live: LiveBrokers,
) -> None:
    def may_lead(broker_id: int) -> bool:
        directory = target.directories.get(broker_id) or before.directory(broker_id)
        return live.may_lead(broker_id, directory)

    last_known = before.last_known_elr if rules.has_elr else ()
    candidates = Candidates(
        before.leader, draft.replicas, draft.isr, draft.elr, last_known, may_lead
    )
    elected = choose_leader(election, candidates)
    if elected.broker_id == before.leader:
        return
    record = draft.record
    record.leader = elected.broker_id
    if elected.broker_id in draft.elr:
        draft.isr = [elected.broker_id]
        draft.elr.remove(elected.broker_id)
    if elected.is_unclean:
        draft.isr, draft.elr = [elected.broker_id], []
        if before.leader_recovery_state != RECOVERING:
            record.leader_recovery_state = RECOVERING


def _set_isr_and_elr(draft: _Draft, before: PartitionImage, rules: PartitionRules) -> None:
    record = draft.record
    if not rules.has_elr or len(draft.isr) >= rules.effective_min_isr:
        draft.elr = []
    if tuple(draft.elr) != before.elr:
        record.eligible_leader_replicas = draft.elr
    if (draft.isr or rules.has_elr) and tuple(draft.isr) != before.isr:
        record.isr = draft.isr
    if not rules.has_elr:
        return
    loses_leader = record.leader == NO_LEADER and before.leader != NO_LEADER
    if record.leader >= 0 and before.last_known_elr:
        record.last_known_elr = []
    elif loses_leader and not before.last_known_elr:
        record.last_known_elr = [before.leader]


def _set_assignment(
    draft: _Draft, before: PartitionImage, target: PartitionTarget, live: LiveBrokers
) -> None:
    record = draft.record
    has_moved = tuple(draft.replicas) != before.replicas
    if has_moved or target.directories:
        directories = [
            target.directories.get(replica)
            or before.directory(replica)
            or live.directory_of_new(replica)
            for replica in draft.replicas
        ]
        # Records of an old cluster have no directories, which counts as all zero.
        old = before.directories or (ZERO_UUID,) * len(before.replicas)
        if tuple(directories) != old:
            record.directories = directories
    if has_moved:
        record.replicas = draft.replicas
    if tuple(draft.removing) != before.removing_replicas:
        record.removing_replicas = draft.removing
    if tuple(draft.adding) != before.adding_replicas:
        record.adding_replicas = draft.adding
