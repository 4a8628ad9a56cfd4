"""Our server-side assignors give out what Apache Kafka's own classes give out, member by member.

The same random groups go to both, most of them with a history: a member left, one joined, a topic
grew. Where Kafka's result depends on the order of a hash map, both get the same order: members as
they are listed, and topic ids so small that Java's hash sets keep them in order. Where it does not,
topic ids are random, as they are in a cluster. That nothing asks for racks is proved with it.
"""

import json
import random

import pytest

from tierlog.clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from tierlog.coordinator.consumer.assignor_members import AssignorMember
from tierlog.coordinator.consumer.assignors import ASSIGNORS
from tierlog.coordinator.consumer.topic_partitions import NOTHING, Partitions
from tierlog.tests.conformance.java_programs import answers_of

pytestmark = pytest.mark.recorded

HISTORIES = 60
STEPS = 6

Members = dict[str, AssignorMember]
Sizes = dict[Uuid, int]


class History:
    """A group that lives through a few changes, each followed by an assignment."""

    def __init__(self, assignor: str, same_subscription: bool, seed: int) -> None:
        self.assignor = assignor
        self._same = same_subscription
        self._chance = random.Random(f"{assignor} {same_subscription} {seed}")
        self._names = 0
        ordered = assignor == "uniform" and same_subscription
        self.sizes: Sizes = {
            Uuid(number.to_bytes(16, "big") if ordered else self._chance.randbytes(16)): (
                self._chance.choice((0, 1, 3, 7, 16, 40))
            )
            for number in range(1, self._chance.randint(2, 7))
        }
        self._shared = self._subscription()
        self.members: Members = {}
        for _ in range(self._chance.randint(1, 9)):
            self._join()

    @property
    def is_as_wanted(self) -> bool:
        """Whether subscriptions are all the same, or not, as was asked for: chance may differ."""
        return self._same == (len({member.topic_ids for member in self.members.values()}) == 1)

    def _subscription(self) -> frozenset[Uuid]:
        topics = sorted(self.sizes)
        return frozenset(self._chance.sample(topics, self._chance.randint(1, len(topics))))

    def _join(self) -> None:
        self._names += 1
        name = f"{self._chance.choice('dcba')}{self._names}"
        instance = (
            f"i-{self._chance.randint(0, 99)}-{name}" if self._chance.random() < 0.3 else None
        )
        topics = self._shared if self._same else self._subscription()
        self.members[name] = AssignorMember(instance, topics, NOTHING)

    def change(self, assigned: dict[str, Partitions]) -> None:
        """Take over what was assigned; then somebody joins, leaves, or the topics change."""
        self.members = {
            name: member._replace(target=assigned[name]) for name, member in self.members.items()
        }
        match self._chance.choice(("join", "leave", "grow", "subscribe", "join", "leave")):
            case "leave" if len(self.members) > 1:
                del self.members[self._chance.choice(sorted(self.members))]
            case "grow":
                self.sizes[self._chance.choice(sorted(self.sizes))] += self._chance.randint(1, 9)
            case "subscribe":
                self._shared = self._subscription()
                self.members = {
                    name: member._replace(
                        topic_ids=self._shared if self._same else self._subscription()
                    )
                    for name, member in self.members.items()
                }
            case _:
                self._join()


def as_json(history: History) -> str:
    def partitions_json(partitions: Partitions) -> dict[str, list[int]]:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            topics.setdefault(uuid_to_string(topic), []).append(partition)
        return topics

    return json.dumps(
        {
            "assignor": history.assignor,
            "sizes": {uuid_to_string(topic): size for topic, size in history.sizes.items()},
            "members": [
                {
                    "id": name,
                    "instance": member.instance_id,
                    "topics": [uuid_to_string(topic) for topic in sorted(member.topic_ids)],
                    "target": partitions_json(member.target),
                }
                for name, member in history.members.items()
            ],
        }
    )


def from_json(text: str) -> dict[str, Partitions]:
    answer: dict[str, dict[str, list[int]]] = json.loads(text)
    return {
        name: frozenset((uuid_from_string(t), n) for t, numbers in topics.items() for n in numbers)
        for name, topics in answer.items()
    }


@pytest.mark.parametrize("same_subscription", [True, False], ids=["same topics", "other topics"])
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_everyone_gets_what_kafka_gives_them(assignor: str, same_subscription: bool) -> None:
    asked: list[str] = []
    ours: list[dict[str, Partitions]] = []
    for seed in range(HISTORIES):
        history = History(assignor, same_subscription, seed)
        for _ in range(STEPS):
            assigned = ASSIGNORS[assignor](history.members, history.sizes)
            if history.is_as_wanted:
                asked.append(as_json(history))
                ours.append(assigned)
            history.change(assigned)
    assert len(asked) > HISTORIES
    for found, line, question in zip(ours, answers_of("Assignors.java", asked), asked, strict=True):
        expected = from_json(line)
        # Kafka may leave out who gets nothing.
        assert {n: parts for n, parts in found.items() if parts} == {
            n: parts for n, parts in expected.items() if parts
        }, question
