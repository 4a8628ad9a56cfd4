"""A listener for controllers takes what administrators ask of one, and refuses what clients ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import APIS, SERVED_ON, ApiKey, ListenerKind, request_class
from tierlog.clients.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
)
from tierlog.clients.protocol.messages.describe_quorum_request import PartitionData, TopicData
from tierlog.tests import wire

from ..broker_process import BrokerThread, RawClient

WITH_CONTROLLER = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
}
BROKERS, CONTROLLERS = 1, 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path, WITH_CONTROLLER) as started:
        yield started


def controller_port(broker: BrokerThread) -> int:
    assert broker.broker is not None
    (endpoint,) = broker.broker.listeners.controllers
    return endpoint.port


def test_each_listener_announces_what_it_takes(broker: BrokerThread) -> None:
    request = wire.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    ports = {
        ListenerKind.BROKER: broker.port,
        ListenerKind.CONTROLLER: controller_port(broker),
    }
    without_receiver = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    for kind, port in ports.items():
        with RawClient(port) as client:
            answer = client.ask(request, 4, wire.ApiVersionsResponse)
        announced = [each.api_key for each in answer.api_keys]
        assert announced == sorted(SERVED_ON[kind].keys() - without_receiver)


def test_an_api_of_the_other_kind_closes_the_connection(broker: BrokerThread) -> None:
    for key, port in (
        (ApiKey.METADATA, controller_port(broker)),
        (ApiKey.FETCH, controller_port(broker)),
        (ApiKey.VOTE, controller_port(broker)),
        (ApiKey.VOTE, broker.port),
        (ApiKey.BROKER_HEARTBEAT, broker.port),
    ):
        with RawClient(port) as client:
            client.send(request_class(key)(), APIS[key].highest_version)
            assert client.is_closed(), key


def test_a_controller_tells_clients_of_an_unknown_version_which_ones_it_has(
    broker: BrokerThread,
) -> None:
    """KIP-511, as on the listener of a broker."""
    header = b"\0\x12\0\x63\0\0\0\7\xff\xff"
    answers: list[bytes] = []
    for port in (broker.port, controller_port(broker)):
        with RawClient(port) as client:
            client.send_frame(header)
            answers.append(client.receive_frame())
    of_broker, of_controller = answers
    assert of_controller == of_broker
    assert of_controller[:6] == b"\0\0\0\7" + b"\0\x23"


def test_each_listener_describes_its_own_kind_of_nodes(broker: BrokerThread) -> None:
    with RawClient(controller_port(broker)) as client:
        of_controllers = wire.DescribeClusterRequest(endpoint_type=CONTROLLERS)
        described = client.ask(of_controllers, 2, wire.DescribeClusterResponse)
        refused = client.ask(wire.DescribeClusterRequest(), 2, wire.DescribeClusterResponse)
    (node,) = described.brokers
    assert (described.endpoint_type, described.controller_id) == (CONTROLLERS, node.broker_id)
    assert (node.host, node.port) == ("127.0.0.1", controller_port(broker))
    assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    with RawClient(broker.port) as client:
        described = client.ask(wire.DescribeClusterRequest(), 2, wire.DescribeClusterResponse)
        refused = client.ask(of_controllers, 2, wire.DescribeClusterResponse)
    assert [each.port for each in described.brokers] == [broker.port]
    assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_a_topic_that_a_controller_was_asked_for_is_there_for_clients(broker: BrokerThread) -> None:
    topic = wire.CreatableTopic(name="asked", num_partitions=1, replication_factor=1)
    with RawClient(controller_port(broker)) as client:
        created = client.ask(wire.CreateTopicsRequest(topics=[topic]), 7, wire.CreateTopicsResponse)
    assert [each.error_code for each in created.topics] == [ErrorCode.NONE]
    asked = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name="asked")])
    with RawClient(broker.port) as client:
        (topic_answer,) = client.ask(asked, 12, wire.MetadataResponse).topics
    assert (topic_answer.error_code, len(topic_answer.partitions)) == (ErrorCode.NONE, 1)


def test_the_quorum_has_the_addresses_that_are_advertised(broker: BrokerThread) -> None:
    metadata = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])
    for port in (broker.port, controller_port(broker)):
        with RawClient(port) as client:
            request = DescribeQuorumRequest(topics=[metadata])
            (node,) = client.ask(request, 2, DescribeQuorumResponse).nodes
        expected = Listener(name="CONTROLLER", host="127.0.0.1", port=controller_port(broker))
        assert node.listeners == [expected]
