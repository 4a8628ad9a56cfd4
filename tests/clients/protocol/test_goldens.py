"""What real clients sent and a real Kafka answered, read and written again without a difference."""

from struct import unpack_from

import pytest

from tierlog.clients.protocol.api import APIS, SERVED, ApiKey, request_class, response_class
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_header,
)
from tierlog.clients.protocol.messages.api_versions import ApiVersionsResponse
from tierlog.clients.protocol.messages.create_topics import CreateTopicsRequest
from tierlog.clients.protocol.messages.default_principal_data import DefaultPrincipalData
from tierlog.clients.protocol.messages.envelope import EnvelopeRequest
from tierlog.clients.protocol.messages.produce import ProduceRequest
from tierlog.clients.record.batch import batches

from .golden import Golden, all_goldens


@pytest.mark.parametrize("golden", all_goldens(), ids=lambda golden: golden.name)
def test_a_golden_frame_comes_out_as_it_went_in(golden: Golden) -> None:
    frame = memoryview(golden.frame)
    if golden.is_request:
        header, position = decode_request_header(frame, APIS)
        assert (header.api_key, header.api_version) == (golden.api_key, golden.version)
        encoded = encode_request_header(header)
        cls = request_class(golden.api_key)
    else:
        correlation_id, position = decode_response_header(golden.api_key, golden.version, frame)
        encoded = response_header(golden.api_key, golden.version, correlation_id)
        cls = response_class(golden.api_key)
    assert encoded == frame[:position]
    message, end = decode(cls, golden.version, frame, position)
    assert end == len(frame)
    assert encode_bytes(message, golden.version) == frame[position:]


ONLY_WITH_A_RECEIVER = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
"""Kafka announces these only with a plugin that takes the metrics, so the recorded one did not."""


def test_every_api_is_among_the_goldens() -> None:
    recorded = {golden.api_key for golden in all_goldens()}
    assert recorded == set(APIS) - ONLY_WITH_A_RECEIVER


def test_what_nodes_say_to_controllers_is_recorded_in_its_newest_version() -> None:
    recorded = {
        (golden.api_key, golden.version, golden.is_request)
        for golden in all_goldens()
        if golden.client.endswith("-node")
    }
    between_nodes = [*(set(APIS) - set(SERVED)), ApiKey.FETCH]
    assert recorded == {
        (key, APIS[key].highest_version, is_request)
        for key in between_nodes
        for is_request in (True, False)
    }


def test_a_recorded_kafka_announces_the_versions_that_we_serve() -> None:
    announcements = [
        golden
        for golden in all_goldens()
        if golden.api_key == ApiKey.API_VERSIONS and not golden.is_request
    ]
    assert announcements
    for golden in announcements:
        response, _ = decode(ApiVersionsResponse, golden.version, memoryview(golden.frame), 4)
        announced = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        assert not announced.keys() & ONLY_WITH_A_RECEIVER
        for api in SERVED.values():
            if api.key in ONLY_WITH_A_RECEIVER:
                continue
            assert announced[api.key] == (api.lowest_version, api.highest_version), api.name


def test_a_recorded_envelope_carries_a_request_and_who_sent_it() -> None:
    (recorded,) = (
        golden
        for golden in all_goldens()
        if golden.api_key == ApiKey.ENVELOPE and golden.is_request
    )
    frame = memoryview(recorded.frame)
    _, position = decode_request_header(frame, APIS)
    envelope, _ = decode(EnvelopeRequest, recorded.version, frame, position)
    inner = memoryview(envelope.request_data)
    header, position = decode_request_header(inner)
    assert (header.api_key, header.api_version) == (ApiKey.CREATE_TOPICS, 7)
    created, end = decode(CreateTopicsRequest, 7, inner, position)
    assert end == len(inner)
    assert [topic.name for topic in created.topics] == ["golden-cluster"]
    assert envelope.request_principal is not None
    (version,) = unpack_from(">h", envelope.request_principal)
    principal, end = decode(DefaultPrincipalData, version, envelope.request_principal, 2)
    assert end == len(envelope.request_principal)
    assert principal == DefaultPrincipalData(type="User", name="ANONYMOUS")
    assert envelope.client_host_address == bytes((127, 0, 0, 1))


def test_recorded_produce_requests_carry_whole_batches() -> None:
    recorded = [
        golden for golden in all_goldens() if golden.api_key == ApiKey.PRODUCE and golden.is_request
    ]
    assert len(recorded) >= 3
    for golden in recorded:
        frame = memoryview(golden.frame)
        request, _ = decode(ProduceRequest, golden.version, frame, decode_request_header(frame)[1])
        for topic in request.topic_data:
            for partition in topic.partition_data:
                assert isinstance(partition.records, memoryview)
                (batch,) = batches(partition.records)
                assert batch.crc_is_valid()
                assert batch.record_count >= 1
