"""A broker that does not decide leaves it to the active controller."""

from collections.abc import Coroutine
from typing import cast

import pytest

from tierlog.broker.dispatch.forwarding import FORWARDABLE, forwarding
from tierlog.broker.handlers import alter_configs, create_topics, incremental_alter_configs
from tierlog.broker.handlers.controller import envelope
from tierlog.broker.request.active_controller import create_topics_for
from tierlog.broker.request.context import BrokerContext, RequestContext
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.api import APIS, BOTH, ApiKey, request_class, response_class
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import decode_request_header
from tierlog.clients.protocol.messages.alter_configs import (
    AlterableConfig as ReplacingConfig,
    AlterConfigsRequest,
    AlterConfigsResource as ReplacedResource,
)
from tierlog.clients.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.configs.alter_configs import ConfigOperation
from tierlog.replication.metadata.cluster_image import ConfigResourceType
from tierlog.security.refusals import refusal_response
from tierlog.tests import wire
from tierlog.tests.broker.cluster.forwarded_requests import (
    CLIENT,
    CONTROLLER_LISTENER,
    NODE_ID,
    DirectChannel,
    controller_node,
    forwarding_broker,
)
from tierlog.tests.replication.broker_node import BrokerNode
from tierlog.tests.replication.node import creation
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop


def _node(loop: SimulatedLoop) -> tuple[BrokerNode, DirectChannel]:
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    return node, DirectChannel(controller_node(node.controller))


async def _create(
    broker: BrokerContext, request: wire.CreateTopicsRequest, context: RequestContext = CLIENT
) -> wire.CreateTopicsResponse:
    handle = forwarding(create_topics.handle)  # type: ignore[arg-type]  # of one API
    answer = handle(broker, context, request)
    response = await cast("Coroutine[object, object, wire.CreateTopicsResponse]", answer)
    assert isinstance(response, wire.CreateTopicsResponse)
    return response


def _codes(response: wire.CreateTopicsResponse) -> dict[str, int]:
    return {each.name: each.error_code for each in response.topics}


async def test_the_active_controller_creates_the_topic(loop: SimulatedLoop) -> None:
    node, channel = _node(loop)
    response = await _create(forwarding_broker(channel), creation("t", partitions=3))
    assert _codes(response) == {"t": ErrorCode.NONE}
    assert response.topics[0].num_partitions == 3
    assert len(node.controller.image.topics_by_name["t"].partitions) == 3
    [sent] = channel.envelopes
    header, _ = decode_request_header(memoryview(sent.request_data), APIS)
    assert (header.api_key, header.api_version, header.client_id) == (19, 7, "admin")
    assert sent.client_host_address == b"\x0a\x00\x00\x02"
    await node.stop()


async def test_an_old_client_gets_its_own_version(loop: SimulatedLoop) -> None:
    node, channel = _node(loop)
    old = CLIENT._replace(api_version=2)
    response = await _create(forwarding_broker(channel), creation("t"), old)
    assert _codes(response) == {"t": ErrorCode.NONE}
    # Version 2 tells nothing of the new topic.
    assert response.topics[0].num_partitions == -1
    await node.stop()


async def test_a_timeout_has_the_form_of_the_api(loop: SimulatedLoop) -> None:
    node, channel = _node(loop)
    channel.failure = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "No controller is active.")
    response = await _create(forwarding_broker(channel), creation("t", "u"))
    assert _codes(response) == {"t": ErrorCode.REQUEST_TIMED_OUT, "u": ErrorCode.REQUEST_TIMED_OUT}
    await node.stop()


async def test_an_error_of_the_envelope_is_not_the_clients(loop: SimulatedLoop) -> None:
    node, channel = _node(loop)
    channel.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    response = await _create(forwarding_broker(channel), creation("t"))
    assert _codes(response) == {"t": ErrorCode.UNKNOWN_SERVER_ERROR}
    channel.error = ErrorCode.UNSUPPORTED_VERSION
    # The dispatcher closes the client's connection, so that it negotiates anew.
    with pytest.raises(KafkaError) as failure:
        await _create(forwarding_broker(channel), creation("t"))
    assert failure.value.code is ErrorCode.UNSUPPORTED_VERSION
    await node.stop()


async def test_who_loses_the_lead_before_the_decision_forwards(loop: SimulatedLoop) -> None:
    node, channel = _node(loop)
    leads = [True]
    broker = forwarding_broker(channel, lambda: leads[0])

    async def deposed(
        _broker: BrokerContext, _context: RequestContext, request: wire.CreateTopicsRequest
    ) -> wire.CreateTopicsResponse:
        leads[0] = False
        return wire.CreateTopicsResponse(
            topics=[
                wire.CreatableTopicResult(name=each.name, error_code=ErrorCode.NOT_CONTROLLER)
                for each in request.topics
            ]
        )

    answer = forwarding(deposed)(broker, CLIENT, creation("t"))  # type: ignore[arg-type]  # of one API
    response = await cast("Coroutine[object, object, wire.CreateTopicsResponse]", answer)
    assert _codes(response) == {"t": ErrorCode.NONE}
    await node.stop()


async def test_the_active_controller_decides_here(loop: SimulatedLoop) -> None:
    node, channel = _node(loop)
    broker = forwarding_broker(channel, lambda: True)
    answer = wire.CreateTopicsResponse()

    def decide(_broker: BrokerContext, _context: RequestContext, _request: Message) -> Message:
        return answer

    assert forwarding(decide)(broker, CLIENT, wire.CreateTopicsRequest()) is answer
    assert not channel.envelopes
    await node.stop()


async def test_missing_topics_are_created_by_the_active_controller(loop: SimulatedLoop) -> None:
    node, channel = _node(loop)
    metadata = CLIENT._replace(api_key=ApiKey.METADATA, api_version=12)
    broker = forwarding_broker(channel)
    response = await create_topics_for(broker, metadata, creation("auto"))
    assert _codes(response) == {"auto": ErrorCode.NONE}
    assert "auto" in node.controller.image.topics_by_name
    channel.failure = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "")
    response = await create_topics_for(broker, metadata, creation("other"))
    assert _codes(response) == {"other": ErrorCode.REQUEST_TIMED_OUT}
    await node.stop()


async def test_levels_of_loggers_stay_here(loop: SimulatedLoop) -> None:
    node, channel = _node(loop)
    await node.controller.create_topics(creation("t"))
    broker = forwarding_broker(channel)

    def change(kind: ConfigResourceType, name: str, key: str) -> AlterConfigsResource:
        config = AlterableConfig(name=key, config_operation=ConfigOperation.SET, value="1000")
        return AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])

    resources = [
        change(ConfigResourceType.BROKER_LOGGER, str(NODE_ID), "no.such.logger"),
        change(ConfigResourceType.TOPIC, "t", "retention.ms"),
        change(ConfigResourceType.TOPIC, "unknown", "retention.ms"),
    ]
    request = IncrementalAlterConfigsRequest(resources=resources)
    context = CLIENT._replace(api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, api_version=1)
    response = await incremental_alter_configs.handle(broker, context, request)
    assert [(each.resource_name, each.error_code) for each in response.responses] == [
        (str(NODE_ID), ErrorCode.INVALID_CONFIG),
        ("t", ErrorCode.NONE),
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert node.controller.image.topic_config("t") == {"retention.ms": "1000"}
    [sent] = channel.envelopes
    _, position = decode_request_header(memoryview(sent.request_data), APIS)
    inner, _ = decode(IncrementalAlterConfigsRequest, 1, sent.request_data, position)
    assert [each.resource_name for each in inner.resources] == ["t", "unknown"]
    await node.stop()


async def test_a_replacing_change_is_forwarded_as_such(loop: SimulatedLoop) -> None:
    node, channel = _node(loop)
    await node.controller.create_topics(creation("t"))
    broker = forwarding_broker(channel)
    context = CLIENT._replace(api_key=ApiKey.ALTER_CONFIGS, api_version=0)
    for key in ("retention.ms", "retention.bytes"):
        config = ReplacingConfig(name=key, value="1000")
        resource = ReplacedResource(
            resource_type=ConfigResourceType.TOPIC, resource_name="t", configs=[config]
        )
        request = AlterConfigsRequest(resources=[resource])
        response = await alter_configs.handle(broker, context, request)
        assert [each.error_code for each in response.responses] == [ErrorCode.NONE]
    assert node.controller.image.topic_config("t") == {"retention.bytes": "1000"}
    channel.failure = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late")
    response = await alter_configs.handle(broker, context, request)
    assert [each.error_code for each in response.responses] == [ErrorCode.REQUEST_TIMED_OUT]
    await node.stop()


@pytest.mark.parametrize("key", sorted(FORWARDABLE), ids=lambda key: APIS[key].name)
def test_every_api_has_a_form_of_failure(key: ApiKey) -> None:
    api = APIS[key]
    assert api.listeners == BOTH
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late")
    for version in range(api.lowest_version, api.highest_version + 1):
        answer = refusal_response(request_class(key)(), error, version)
        decoded, _ = decode(response_class(key), version, encode_bytes(answer, version))
        assert isinstance(decoded, response_class(key))


def test_a_failed_election_names_its_partitions() -> None:
    request = ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic="t", partitions=[0, 1])], timeout_ms=1
    )
    answer = refusal_response(request, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"), 0)
    encoded = encode_bytes(answer, 0)
    assert encoded.count(ErrorCode.REQUEST_TIMED_OUT.to_bytes(2, "big") + b"\x00\x04late") == 2


def test_controllers_take_all_that_brokers_forward() -> None:
    configs = {ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}
    assert FORWARDABLE | configs | {ApiKey.ALLOCATE_PRODUCER_IDS} == envelope.FORWARDABLE
    assert CONTROLLER_LISTENER.api_key == ApiKey.ENVELOPE
