"""A forwarded request is decided as that of the first client, from its address (KIP-590)."""

from collections.abc import Coroutine
from typing import cast

from tierlog.broker.dispatch.forwarding import forwarding
from tierlog.broker.handlers import create_topics
from tierlog.broker.request.context import NodeContext, RequestContext
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import ApiKey, ListenerKind
from tierlog.clients.protocol.schema import Message
from tierlog.security.api_checks import with_check
from tierlog.tests import wire
from tierlog.tests.broker.cluster.forwarded_requests import (
    CLIENT,
    CONTROLLER_LISTENER,
    DirectChannel,
    controller_node,
    forwarding_broker,
)
from tierlog.tests.replication.broker_node import BrokerNode
from tierlog.tests.replication.node import creation
from tierlog.tests.security.access_cases import CLUSTER_ACTION, CREATE, cluster, topic
from tierlog.tests.security.ruled_broker import Rules
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

ALICE = CLIENT._replace(principal="User:alice")


async def forwarded(channel: DirectChannel, request: Message, version: int = 7) -> Message:
    """The answer to Alice's request, sent to a broker that is not the controller."""
    handle = forwarding(create_topics.handle)  # type: ignore[arg-type]  # of one API
    context = ALICE._replace(api_key=request.api_key, api_version=version)
    answer = handle(forwarding_broker(channel), context, request)
    return await cast("Coroutine[object, object, Message]", answer)


async def test_the_controller_decides_about_the_client_and_not_about_its_broker(
    loop: SimulatedLoop,
) -> None:
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    rules = Rules()
    channel = DirectChannel(controller_node(node.controller, rules))
    rules.allow([topic(CREATE, "hers")])
    both = wire.CreateTopicsRequest(
        topics=[*creation("hers").topics, *creation("another").topics], timeout_ms=5_000
    )
    response = await forwarded(channel, both)
    assert isinstance(response, wire.CreateTopicsResponse)
    assert {each.name: each.error_code for each in response.topics} == {
        "hers": ErrorCode.NONE,
        "another": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert set(node.controller.image.topics_by_name) == {"hers"}
    who = {(principal, host) for principal, host, _ in rules.decisions}
    assert who == {("User:alice", "10.0.0.2")}
    await node.stop()


async def test_a_forwarded_request_of_the_whole_cluster_is_checked_in_its_envelope(
    loop: SimulatedLoop,
) -> None:
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    rules = Rules()
    rules.allow([])
    channel = DirectChannel(controller_node(node.controller, rules))
    request = wire.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=5_000)
    response = await forwarded(channel, request, version=2)
    assert isinstance(response, wire.ElectLeadersResponse)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await node.stop()


async def test_only_a_node_of_the_cluster_may_forward(loop: SimulatedLoop) -> None:
    rules = Rules()
    handled: list[Message] = []

    def handle(_: NodeContext, __: RequestContext, request: Message) -> Message:
        handled.append(request)
        return wire.EnvelopeResponse()

    checked = with_check(ApiKey.ENVELOPE, ListenerKind.CONTROLLER, handle)
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    context = controller_node(node.controller, rules)
    rules.allow([])
    answer = checked(context, CONTROLLER_LISTENER, wire.EnvelopeRequest())
    assert isinstance(answer, wire.EnvelopeResponse)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert handled == []
    rules.allow([cluster(CLUSTER_ACTION)])
    checked(context, CONTROLLER_LISTENER, wire.EnvelopeRequest())
    assert len(handled) == 1
    await node.stop()
