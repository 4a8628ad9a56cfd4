"""Brokers and an administrator around the controllers of a simulated quorum."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.control.brokers.broker_control import unregister_broker
from tierlog.replication.control.brokers.sessions import BrokerIdAndEpoch
from tierlog.replication.control.controller_config import ControllerConfig, Decision
from tierlog.replication.control.leadership.leader_and_isr import elect_missing, elect_preferred
from tierlog.replication.control.topics.topic_control import (
    TopicControl,
    create_topics,
    delete_topics,
)
from tierlog.tests import wire

from .controller_broker import SimulatedBroker
from .controller_node import Answer, SimulatedController
from .controller_rules import ControllerRules, active_members
from .quorum_node import QuorumNode

if TYPE_CHECKING:
    from .quorum_story import Story

AnswerT = TypeVar("AnswerT")
REQUEST_TIMEOUT_MS = 1000
LATE = 0.25
TOPICS_MAX = 8


class SimulatedCluster:
    """See the module."""

    def __init__(self, story: "Story") -> None:
        self.story = story
        self.queue = story.queue
        self.chance = random.Random(f"cluster {story.plan.seed}")
        self.counts = story.counts
        self.rules = ControllerRules(story.counts)
        self.brokers: list[SimulatedBroker] = []
        self._creations: dict[str, str] = {}
        """What became of each topic: sent, acknowledged, refused, to be deleted or deleted."""
        self._repeated: set[str] = set()
        """Those that were requested more than once: a late request may create them anew."""
        self._acknowledged: dict[str, Uuid] = {}
        self._blocks: set[int] = set()
        self._ids = 0

    def begin(self) -> None:
        """Put a broker on each node that runs one, and let the administrator work."""
        runs = [node for node in self.story.nodes if not node.options.can_be_voter]
        self.brokers = [SimulatedBroker(self, node) for node in runs]
        self._watch_starts()
        self._act_now_and_then()

    def controller(self, node: QuorumNode) -> SimulatedController:
        """The controller of a node, active or not."""
        machine = node.machine
        assert isinstance(machine, SimulatedController)
        return machine

    def later(self, least_ms: float, most_ms: float, act: Callable[[], None]) -> None:
        """Do something after a while."""
        self.queue.after(self.chance.uniform(least_ms, most_ms), act)

    def _watch_starts(self) -> None:
        for broker in self.brokers:
            if broker.node.life and not broker.is_alive:
                broker.begin()
            if not broker.node.life:
                self.rules.offsets.pop(broker.id, None)
        self.queue.after(25, self._watch_starts)

    def check_seen(self, stopping: SimulatedBroker) -> None:
        """A broker may stop: all active ones know that it leads nothing any more."""
        at = self.rules.shutdown_offsets.get(stopping.id, -1)
        if at < stopping.epoch:
            return  # it led nothing, and went at once
        for broker in self.brokers:
            registered = self.rules.image.brokers.get(broker.id)
            if registered is None or not registered.is_active or registered.epoch != broker.epoch:
                continue
            assert not broker.is_alive or broker.image.offset >= at, (
                f"broker {stopping.id} may stop at {at}, broker {broker.id} is at "
                f"{broker.image.offset}"
            )

    def ask(
        self,
        source: QuorumNode,
        handle: Callable[[SimulatedController, Answer[AnswerT]], None],
        on_answer: Answer[AnswerT],
        *,
        may_be_late: bool = False,
    ) -> None:
        """Send a request to the controller that a node believes in; one answer comes for sure.

        It may be REQUEST_TIMED_OUT, and then the request may have arrived, or may arrive yet.
        """
        life, story = source.life, self.story
        is_answered = False

        def finish(answer: AnswerT | KafkaError) -> None:
            nonlocal is_answered
            if not is_answered and source.life == life:
                is_answered = True
                on_answer(answer)

        core = source.core
        leader_id = None if core is None else core.leader_id
        self.queue.after(REQUEST_TIMEOUT_MS, lambda: finish(_timed_out()))
        if leader_id is None:
            return
        target = story.node(leader_id)

        def reply(answer: AnswerT | KafkaError) -> None:
            self._transmit(target, source, lambda: finish(answer))

        def arrive() -> None:
            if target.life:
                target.control(lambda: handle(self.controller(target), reply))

        if may_be_late and self.chance.random() < LATE:
            self.counts["late request to the controller"] += 1
            self.later(300, 6_000, arrive)
            return
        self._transmit(source, target, arrive)

    def _transmit(self, source: QuorumNode, target: QuorumNode, arrive: Callable[[], None]) -> None:
        network = self.story.network

        def deliver() -> None:
            if not network.is_cut((source.id, target.id)):
                arrive()

        weather = network.weather
        self.later(weather.latency_ms_min, weather.latency_ms_max, deliver)

    def _act_now_and_then(self) -> None:
        living = [node for node in self.story.nodes if node.core is not None]
        if living and self.story.is_chaotic:
            self._act(self.chance.choice(living))
        self.later(0, 2 * self.story.plan.write_every_ms, self._act_now_and_then)

    def _act(self, source: QuorumNode) -> None:
        what = self.chance.random()
        image = self.rules.image
        if what < 0.5 and len(image.topics_by_id) < TOPICS_MAX:
            self.create(source)
        elif what < 0.6:
            self._delete(source)
        elif what < 0.75:
            self._allocate()
        elif what < 0.9:
            self._elect(source)
        elif what < 0.905:
            self._unregister(source)

    def create(self, source: QuorumNode, replicas: int = 3) -> str:
        """Create a topic, or create one once more of which nobody has heard."""
        unsure = [name for name, state in self._creations.items() if state == "sent"]
        again = bool(unsure) and self.chance.random() < 0.3
        name = self.chance.choice(unsure) if again else f"topic{len(self._creations)}"
        self._creations[name] = "sent"
        self._repeated |= {name} if again else set()
        configs = [
            wire.CreatableTopicConfig(name="min.insync.replicas", value=self.chance.choice("12")),
            wire.CreatableTopicConfig(
                name="unclean.leader.election.enable",
                value=self.chance.choice(("true", "false", "false")),
            ),
        ]
        topic = wire.CreatableTopic(
            name=name,
            num_partitions=self.chance.randint(1, 3),
            replication_factor=self.chance.randint(1, min(replicas, len(self.brokers))),
            configs=configs,
        )
        request = wire.CreateTopicsRequest(topics=[topic])
        control = TopicControl(ControllerConfig(), self._new_id, self.chance)

        def handle(
            controller: SimulatedController, answer: Answer[wire.CreateTopicsResponse]
        ) -> None:
            controller.write(lambda image: create_topics(control, image, request), answer)

        self.ask(source, handle, lambda answer: self._created(name, answer))
        return name

    def _new_id(self) -> Uuid:
        self._ids += 1
        return Uuid(b"topic".ljust(12, b"-") + self._ids.to_bytes(4, "big"))

    def _created(self, name: str, answer: wire.CreateTopicsResponse | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            return
        (result,) = answer.topics
        code = ErrorCode(result.error_code)
        self.counts[f"creation {code.name}"] += 1
        if code is ErrorCode.NONE:
            assert self.rules.created.get(result.topic_id) == name, (
                f"{name} is acknowledged, and not committed"
            )
            assert self._acknowledged.setdefault(name, result.topic_id) == result.topic_id, (
                f"{name} is created twice"
            )
            self._creations[name] = "acknowledged"
        elif code is ErrorCode.TOPIC_ALREADY_EXISTS:
            assert name in self.rules.created.values(), f"{name} exists, and is not committed"
            if self._creations[name] == "sent":
                self._creations[name] = "exists"
        elif self._creations[name] == "sent":
            self._creations[name] = "refused once"

    def _delete(self, source: QuorumNode) -> None:
        names = [
            name
            for name, state in self._creations.items()
            if state == "acknowledged" and name not in self._repeated
        ]
        if not names:
            return
        name = self.chance.choice(names)
        self._creations[name] = "to be deleted"
        request = wire.DeleteTopicsRequest(topic_names=[name])

        def handle(
            controller: SimulatedController, answer: Answer[wire.DeleteTopicsResponse]
        ) -> None:
            controller.write(
                lambda image: delete_topics(ControllerConfig(), image, request), answer
            )

        self.ask(source, handle, lambda answer: self._deleted(name, answer))

    def _deleted(self, name: str, answer: wire.DeleteTopicsResponse | KafkaError) -> None:
        if not isinstance(answer, KafkaError) and not answer.responses[0].error_code:
            assert name not in self.rules.image.topics_by_name, f"{name} is deleted, and is there"
            self.counts["topic deleted"] += 1
            self._creations[name] = "deleted"

    def _allocate(self) -> None:
        broker = self.chance.choice(self.brokers)
        if not broker.is_alive or broker.epoch < 0:
            return
        key = BrokerIdAndEpoch(broker.id, broker.epoch)

        def allocated(first: int | KafkaError) -> None:
            if isinstance(first, int):
                assert first not in self._blocks, f"the producer ids from {first} are given twice"
                self._blocks.add(first)
                self.counts["producer ids allocated"] += 1

        self.ask(
            broker.node,
            lambda controller, answer: controller.allocate_producer_ids(key, answer),
            allocated,
            may_be_late=True,
        )

    def _elect(self, source: QuorumNode) -> None:
        elect = self.chance.choice((elect_preferred, elect_missing))

        def handle(controller: SimulatedController, answer: Answer[None]) -> None:
            controller.write(lambda image: Decision(elect(image, 100), None), answer)

        self.ask(source, handle, _ignore)

    def _unregister(self, source: QuorumNode) -> None:
        broker_id = self.chance.choice(self.brokers).id

        def handle(controller: SimulatedController, answer: Answer[None]) -> None:
            controller.write(lambda image: unregister_broker(image, -1, broker_id), answer)

        def answered(answer: KafkaError | None) -> None:
            self.counts["broker unregistered"] += answer is None

        self.ask(source, handle, answered)

    def heal(self, within_ms: float) -> None:
        """After the quorum has healed: all brokers are back, and a topic can be created."""
        story = self.story
        story.run_until(self._is_whole, within_ms, "all brokers are unfenced, and led are all")
        count = len(self._acknowledged)

        def create_again() -> None:
            if len(self._acknowledged) == count:
                self.create(story.nodes[-1], replicas=1)
                self.queue.after(REQUEST_TIMEOUT_MS, create_again)

        create_again()
        story.run_until(lambda: len(self._acknowledged) > count, within_ms, "a topic is created")
        story.run_for(2 * REQUEST_TIMEOUT_MS)
        image = self.rules.image
        for name, state in self._creations.items():
            if state in ("acknowledged", "exists"):
                assert name in image.topics_by_name, f"{name} is acknowledged, and lost"
            if state == "deleted":
                assert name not in image.topics_by_name, f"{name} was deleted, and is there"
        for name, topic_id in self._acknowledged.items():
            topic = image.topics_by_name.get(name)
            assert topic is None or topic.topic_id == topic_id, f"{name} is there twice"

    def _is_whole(self) -> bool:
        image = self.rules.image
        for broker in self.brokers:
            registered = image.brokers.get(broker.id)
            if registered is None or not registered.is_active or not broker.is_alive:
                return False
        return all(
            partition.leader >= 0 or not active_members(image, partition)
            for topic in image.topics_by_id.values()
            for partition in topic.partitions.values()
        )


def _ignore(_: KafkaError | None) -> None:
    """Nobody waits for it."""


def _timed_out() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "No answer came.")
