"""One simulated broker: it registers, heartbeats, asks for ISR changes, stops, dies with its node.

It lives on a node of the quorum, voter or observer, and follows the metadata that this node has
committed. Its requests go to the controller that its node believes in, and may be late by seconds.
"""

from typing import TYPE_CHECKING

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.control.brokers.broker_life import (
    TRANSITIONS,
    BrokerLife,
    LifeEvent,
    request_delay_ms,
)
from tierlog.replication.control.brokers.broker_states import Heartbeat, HeartbeatAnswer
from tierlog.replication.control.brokers.registration import BrokerRegistrationData
from tierlog.replication.control.brokers.sessions import BrokerIdAndEpoch
from tierlog.replication.control.leadership.alter_partition import AlterPartitionResult, IsrRequest
from tierlog.replication.control.leadership.leader_and_isr import ELR_FEATURE
from tierlog.replication.metadata.cluster_image import ClusterImage, Endpoint, PartitionImage
from tierlog.replication.metadata.metadata_records import SUPPORTED_FEATURES
from tierlog.replication.metadata.replica_epoch import ReplicaEpoch

from .controller_node import EMPTY
from .quorum_node import QuorumNode

if TYPE_CHECKING:
    from .controller_cluster import SimulatedCluster

INTERVAL_MS = 1000
STOP_WITHIN_MS = 15_000


class SimulatedBroker:
    """See the module."""

    def __init__(self, cluster: "SimulatedCluster", node: QuorumNode) -> None:
        self.cluster = cluster
        self.node = node
        self.epoch = -1
        self.state = BrokerLife.STARTING
        self.is_ready = False
        self._life = 0
        self._incarnation = Uuid(bytes(16))
        self._directory = Uuid(bytes(14) + bytes((9, node.id)))
        self._clean_file = -1
        self._previous_epoch = -1
        self._older = EMPTY
        """An image of a while ago: what fetches of followers said then."""

    @property
    def id(self) -> int:
        return self.node.id

    @property
    def image(self) -> ClusterImage:
        """The metadata that this broker has."""
        return self.cluster.controller(self.node).core.committed

    @property
    def is_alive(self) -> bool:
        """Whether this life of the process goes on."""
        return self.node.life == self._life

    def begin(self) -> None:
        """The process has started: a new incarnation."""
        self._life = self.node.life
        self.epoch, self.state, self.is_ready = -1, BrokerLife.STARTING, False
        self._incarnation = Uuid(b"incarnation" + bytes((self.id,)) + self._life.to_bytes(4, "big"))
        self._previous_epoch, self._clean_file = self._clean_file, -1
        self._older = self.image
        life = self._life
        self.cluster.later(0, 20, lambda: self._ask() if self.node.life == life else None)
        self._alter_now_and_then(life)

    def stop(self) -> bool:
        """Begin a controlled shutdown; whether there was anything to stop."""
        if not self.is_alive or self.state is not BrokerLife.RUNNING:
            return False
        self._move(LifeEvent.STOP)
        life = self._life

        def give_up() -> None:
            if self.node.life == life:
                self.cluster.counts["controlled shutdown timed out"] += 1
                self._end()

        self.cluster.queue.after(STOP_WITHIN_MS, give_up)
        return True

    def _move(self, event: LifeEvent) -> None:
        self.state = TRANSITIONS.get((self.state, event), self.state)

    def _end(self) -> None:
        self._move(LifeEvent.MAY_STOP)
        # All logs are synced and closed: the file names the epoch for the next incarnation.
        self._clean_file = self.epoch
        self.cluster.rules.clean_epochs[self.id] = self.epoch
        self.node.stop_cleanly()
        self.cluster.story.restart_later(self.node)

    def _ask(self) -> None:
        """Send the next request; there is one at a time."""
        self.cluster.rules.offsets[self.id] = self.epoch, self.image.offset
        if self.epoch < 0:
            data = BrokerRegistrationData(
                self.id,
                "a cluster",
                self._incarnation,
                [Endpoint("PLAINTEXT", f"node{self.id}", 9092, 0)],
                {**SUPPORTED_FEATURES, ELR_FEATURE: (0, 1)},
                [self._directory],
                previous_broker_epoch=self._previous_epoch,
            )
            self.cluster.ask(
                self.node,
                lambda controller, answer: controller.register(data, answer),
                self._registered,
            )
            return
        broker = BrokerIdAndEpoch(self.id, self.epoch)
        heartbeat = Heartbeat(
            self.image.offset,
            wants_fence=not self.is_ready,
            wants_shutdown=self.state is BrokerLife.PENDING_CONTROLLED_SHUTDOWN,
        )
        self.cluster.ask(
            self.node,
            lambda controller, answer: controller.heartbeat(broker, heartbeat, answer),
            self._beaten,
        )

    def _registered(self, answer: int | KafkaError) -> None:
        if isinstance(answer, int):
            self.epoch = answer
        elif answer.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self.cluster.counts["registration refused as a duplicate"] += 1
        self._ask_later(has_answer=False)

    def _beaten(self, answer: HeartbeatAnswer | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            if answer.code is ErrorCode.STALE_BROKER_EPOCH:
                self.cluster.counts["broker was unregistered"] += 1
                self.node.kill()
                self.cluster.story.restart_later(self.node)
                return
            self._ask_later(has_answer=False)
            return
        if answer.should_shut_down and self.state is BrokerLife.PENDING_CONTROLLED_SHUTDOWN:
            self.cluster.counts["controlled shutdown"] += 1
            self.cluster.check_seen(self)
            self._end()
            return
        if answer.is_caught_up and self.state is BrokerLife.STARTING:
            self._move(LifeEvent.CAUGHT_UP)
            self.cluster.later(0, 300, self._be_ready)
        if not answer.is_fenced and self.state is BrokerLife.RECOVERY:
            self._move(LifeEvent.UNFENCED)
        self._ask_later(has_answer=True)

    def _be_ready(self) -> None:
        self.is_ready = True

    def _ask_later(self, *, has_answer: bool) -> None:
        delay = request_delay_ms(self.state, INTERVAL_MS, has_answer)
        life = self._life
        self.cluster.queue.after(delay, lambda: self._ask() if self.node.life == life else None)

    def _alter_now_and_then(self, life: int) -> None:
        if self.node.life != life:
            return
        chance = self.cluster.chance
        if self.state is BrokerLife.RUNNING and not self.node.is_paused:
            self._alter(self.image)
            if chance.random() < 0.3:
                self._older = self.image
        self.cluster.later(100, 1200, lambda: self._alter_now_and_then(life))

    def _alter(self, image: ClusterImage) -> None:
        """Ask for another ISR of a partition that this broker leads."""
        chance = self.cluster.chance
        led = [
            (topic.topic_id, number, partition)
            for topic in image.topics_by_id.values()
            for number, partition in topic.partitions.items()
            if partition.leader == self.id and len(partition.replicas) > 1
        ]
        if not led:
            return
        topic_id, number, partition = chance.choice(led)
        # The epochs are those of the followers' fetches: perhaps of a life that is over.
        seen = self._older if chance.random() < 0.3 else image
        members = self._members(partition, seen)
        if set(members) == set(partition.isr) and not partition.leader_recovery_state:
            return
        isr = [
            ReplicaEpoch(each, seen.brokers[each].epoch if each in seen.brokers else -1)
            for each in members
        ]
        request = IsrRequest(
            topic_id, number, partition.leader_epoch, partition.partition_epoch, isr
        )
        sender = ReplicaEpoch(self.id, self.epoch)
        self.cluster.ask(
            self.node,
            lambda controller, answer: controller.alter_partition(sender, request, answer),
            self._altered,
            may_be_late=True,
        )

    def _altered(self, _: AlterPartitionResult | KafkaError) -> None:
        """The change comes with the metadata."""

    def _members(self, partition: PartitionImage, seen: ClusterImage) -> list[int]:
        chance = self.cluster.chance
        if chance.random() < 0.2:
            return [each for each in partition.isr if each == self.id or chance.random() < 0.5]
        is_known = seen.brokers.__contains__
        return [
            each
            for each in partition.replicas
            if each == self.id or (is_known(each) and chance.random() < 0.8)
        ]
