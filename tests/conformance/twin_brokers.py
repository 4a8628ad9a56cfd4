"""A real Kafka and our broker with the same settings, and the groups of a story leaving both."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial

import pytest

from tierlog.clients.protocol.messages.delete_groups import DeleteGroupsRequest
from tierlog.clients.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tierlog.clients.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tierlog.tests.recordings.kafka_node import kafka_node

from ..broker_process import BrokerProcess, RawClient
from ..waiting import wait_until
from .twins import Twins, prepare

_SETTINGS = {
    "node.id": "1",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    # Kafka tells a member its id before the new group's record is committed, and what it lists and
    # describes is what is committed: by default that is a moment later, when its queue is empty.
    "group.coordinator.append.linger.ms": "0",
}


@contextmanager
def twin_brokers(
    directories: pytest.TempPathFactory, settings: Mapping[str, str]
) -> Generator[tuple[int, int]]:
    """Their ports, Kafka's first; both coordinate groups, and neither has any yet."""
    properties = {**_SETTINGS, **settings}
    kafka = kafka_node(directories.mktemp("kafka"), properties=properties)
    with kafka, BrokerProcess.on(directories.mktemp("ours"), properties) as ours:
        for port in (kafka.port, ours.port):
            prepare(port)
            wait_until(partial(_all_is_loaded, port), 60, "the offsets topic is being loaded")
        yield kafka.port, ours.port
        assert "Traceback" not in ours.log.read_text()


def _all_is_loaded(port: int) -> bool:
    """Until then a list of groups is refused."""
    with RawClient(port) as client:
        return not client.ask(ListGroupsRequest(), 5, ListGroupsResponse).error_code


def leave(twins: Twins) -> None:
    """Whoever is still in the classic group leaves, so that the next story has an empty one."""
    for side in twins.sides:
        members = [MemberIdentity(member_id=member_id) for member_id in side.ids.values()]
        members += [MemberIdentity(group_instance_id="sam")]
        request = LeaveGroupRequest(group_id="group", members=members)
        side.client.receive(side.client.send(request, 5))


def delete_groups(twins: Twins, *group_ids: str) -> None:
    """Nothing is left of the groups."""
    for side in twins.sides:
        request = DeleteGroupsRequest(groups_names=list(group_ids))
        side.client.receive(side.client.send(request, 2))
