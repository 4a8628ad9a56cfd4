"""Shared by tests: a leader, a controller and two followers that do not hear of each other in time.

The controller's image is ahead of the leader's: records are published later, requests and answers
may be lost. The followers are what they truly hold, which a restart may make less.
"""

from collections.abc import Sequence

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.leadership.alter_partition import (
    AlterPartitionResult,
    IsrRequest,
    alter_partitions,
)
from tierlog.replication.control.leadership.leader_and_isr import (
    LostBroker,
    with_broker,
    without_broker,
)
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, PartitionImage
from tierlog.replication.metadata.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from tierlog.replication.metadata.replica_epoch import ReplicaEpoch
from tierlog.replication.partition.isr import ErrorReaction, IsrAnswer, IsrProposal
from tierlog.replication.partition.partition import Partition

from .three_replicas import LEADER, SECOND, T0, THIRD, TOPIC_ID, Leader


class IsrWalk:
    """One leader's term, step by step."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self.controller: ClusterImage = leader.image
        self.unpublished: list[Message] = []
        self.held = {SECOND: 0, THIRD: 0}
        self.proposal: IsrProposal | None = None
        self.answer: AlterPartitionResult | None = None
        self.answered: IsrProposal | None = None
        """What the answer is to; a newer proposal may have taken its place."""

    @property
    def partition(self) -> Partition:
        return self.leader.replicas.partition(T0)

    @property
    def truth(self) -> PartitionImage:
        found = self.controller.partition("t", 0)
        assert found is not None
        return found

    def fetch(self, broker_id: int, *, is_lost: bool) -> None:
        """The follower asks; it has the records unless the answer is lost."""
        broker = self.controller.brokers[broker_id]
        data = self.leader.follow(broker_id, self.held[broker_id], broker_epoch=broker.epoch)
        if data.error_code == ErrorCode.NONE and not is_lost:
            self.held[broker_id] = self.partition.log.log_end_offset
        proposal = self.partition.propose_expansion(broker_id)
        if proposal is not None:
            self.proposal = proposal

    def restart(self, broker_id: int, lost: int) -> None:
        """The follower loses its last records, and registers anew."""
        self.held[broker_id] = max(0, self.held[broker_id] - lost)
        moves = without_broker(self.controller, LostBroker(broker_id, is_unclean=True))
        epoch = self.controller.brokers[broker_id].epoch + 1
        registered = RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, fenced=True)
        self._commit([*moves, registered])
        self.unfence(broker_id)

    def fence(self, broker_id: int) -> None:
        epoch = self.controller.brokers[broker_id].epoch
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=1)
        self._commit([*without_broker(self.controller, LostBroker(broker_id)), change])

    def unfence(self, broker_id: int) -> None:
        epoch = self.controller.brokers[broker_id].epoch
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=-1)
        self._commit([change, *with_broker(self.controller, broker_id)])

    def decide(self) -> None:
        """The request in flight reaches the controller, maybe for the second time."""
        proposal = self.proposal
        if proposal is None:
            return
        members = [ReplicaEpoch(*member) for member in proposal.isr]
        wanted = IsrRequest(TOPIC_ID, 0, proposal.leader_epoch, proposal.partition_epoch, members)
        decision = alter_partitions(self.controller, ReplicaEpoch(LEADER, 10 * LEADER), [wanted])
        self._commit(decision.records)
        (self.answer,) = decision.answer
        self.answered = proposal

    def publish(self) -> None:
        """The leader hears what has happened."""
        records, self.unpublished = self.unpublished, []
        if records:
            self.leader.publish(*records)

    def _commit(self, records: Sequence[Message]) -> None:
        delta = ClusterDelta(self.controller)
        delta.replay_all(records)
        self.controller = delta.apply(self.controller.offset + len(records), 1)
        self.unpublished += records

    def shrink(self) -> None:
        proposal = self.partition.propose_shrink(self.leader.environment.wall_clock_ms())
        if proposal is not None:
            self.proposal = proposal

    def hear(self, *, is_lost: bool) -> None:
        """The controller's answer arrives; if it is lost, the request stays in flight."""
        answer, proposal = self.answer, self.answered
        self.answer = self.answered = None
        if answer is None or proposal is None or is_lost:
            return
        state = answer.state
        if state is not None:
            known = IsrAnswer(state.leader_epoch, state.partition_epoch, state.isr)
            self.partition.take_isr_answer(known, self.leader.environment.wall_clock_ms())
        elif self.partition.take_isr_error(proposal, answer.error) is ErrorReaction.RETRY:
            return
        if self.proposal is proposal:
            self.proposal = None

    def check(self, high_watermark_before: int) -> None:
        """Whoever can be elected holds everything below the high watermark."""
        assert self.truth.leader == LEADER
        high_watermark = self.leader.high_watermark
        assert high_watermark >= high_watermark_before
        for broker_id in self.truth.isr:
            if broker_id != LEADER:
                assert self.held[broker_id] >= high_watermark
        if not self.unpublished:
            assert set(self.truth.isr) <= set(self.partition.isr_state.maximal_isr)
