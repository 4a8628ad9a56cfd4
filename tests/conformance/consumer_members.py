"""Shared by tests: members of the consumer protocol, whose requests go to both clusters."""

from collections.abc import Iterable
from typing import cast

from tierlog.clients.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

from .side_by_side import Plain
from .twins import TOPIC, Ask, Side, Twins

HEARTBEAT_VERSION = 1


class ConsumerMembers:
    """Members of one group, each with the epoch that it was told last."""

    def __init__(self, twins: Twins, group: str) -> None:
        self.twins = twins
        self.group = group
        self.epochs: dict[str, int] = {}

    def join(self, member: str, **changes: object) -> dict[str, Plain]:
        """All that a first request says, unless it is to say something else."""
        stated: dict[str, object] = {
            "owned": (),
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [TOPIC],
        }
        return self.beat(member, 0, **{**stated, **changes})

    def beat(self, member: str, epoch: int | None = None, /, **changes: object) -> dict[str, Plain]:
        """A heartbeat; `owned` names the partitions of the topic that the member has."""
        given = self.epochs.get(member, 1) if epoch is None else epoch
        answer = self.twins.same(beating(self.group, member, given, **changes), HEARTBEAT_VERSION)
        assert isinstance(answer, dict)
        epoch_after = answer["member_epoch"]
        if not answer["error_code"] and isinstance(epoch_after, int):
            self.epochs[member] = epoch_after
        return answer

    def error(self, member: str, epoch: int | None = None, /, **changes: object) -> Plain:
        return self.beat(member, epoch, **changes)["error_code"]


def beating(group: str, member: str, epoch: int, /, **changes: object) -> Ask:
    """A heartbeat that says this."""

    def ask(side: Side) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch
        )
        for name, value in changes.items():
            if name == "owned":
                request.topic_partitions = _partitions(side, value)
            else:
                setattr(request, name, value)
        return request

    return ask


def _partitions(side: Side, numbers: object) -> list[TopicPartitions] | None:
    if numbers is None:
        return None
    owned = list(cast("Iterable[int]", numbers))
    return [TopicPartitions(topic_id=side.topic_id, partitions=owned)] if owned else []


def assigned(answer: dict[str, Plain]) -> list[int]:
    """The partitions of the topic that an answer gives."""
    assignment = answer["assignment"]
    assert isinstance(assignment, dict)
    topics = assignment["topic_partitions"]
    assert isinstance(topics, list)
    numbers: list[int] = []
    for topic in topics:
        assert isinstance(topic, dict)
        partitions = topic["partitions"]
        assert isinstance(partitions, list)
        numbers += [number for number in partitions if isinstance(number, int)]
    return numbers
