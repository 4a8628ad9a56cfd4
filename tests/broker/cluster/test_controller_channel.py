"""Requests reach the active controller, wherever it is, or fail with REQUEST_TIMED_OUT."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tierlog.broker.cluster import controller_channel
from tierlog.broker.cluster.controller_channel import ControllerChannel
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.network import DESERTED_MAX
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.schema import Message
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.tests import wire
from tierlog.tests.broker.cluster.scripted_controller import (
    TIMEOUT_S,
    Answer,
    LeaderInTest,
    ScriptedController,
    never,
)

_TIMEOUT_MS = TIMEOUT_S * 1000


def _ids(first: int) -> Answer:
    return lambda _: wire.AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1000)


def _refusal(code: ErrorCode) -> Answer:
    return lambda _: wire.AllocateProducerIdsResponse(error_code=code)


@asynccontextmanager
async def _controllers(*answers: Answer) -> AsyncGenerator[list[ScriptedController]]:
    nodes = [ScriptedController({ApiKey.ALLOCATE_PRODUCER_IDS: answer}) for answer in answers]
    for node in nodes:
        await node.start()
    try:
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


@asynccontextmanager
async def _channel(
    leader: LeaderInTest,
    request_timeout_ms: int = _TIMEOUT_MS,
    *,
    keeps_late_connections: bool = False,
) -> AsyncGenerator[ControllerChannel]:
    channel = ControllerChannel(
        leader,
        SystemEnvironment(),
        client_id="test",
        request_timeout_ms=request_timeout_ms,
        keeps_late_connections=keeps_late_connections,
    )
    try:
        yield channel
    finally:
        await channel.close()


async def _allocate(channel: ControllerChannel, timeout_ms: int = _TIMEOUT_MS) -> int:
    response = await channel.request(
        wire.AllocateProducerIdsRequest(broker_id=1, broker_epoch=5),
        wire.AllocateProducerIdsResponse,
        timeout_ms,
    )
    assert not response.error_code
    return response.producer_id_start


async def test_requests_share_one_connection_to_the_leader() -> None:
    leader = LeaderInTest()
    async with _controllers(_ids(1000)) as [node], _channel(leader) as channel:
        leader.names(3, node)
        assert await asyncio.gather(*(_allocate(channel) for _ in range(20))) == [1000] * 20
        assert node.connections == 1


async def test_a_request_waits_for_a_leader() -> None:
    leader = LeaderInTest()
    async with _controllers(_ids(1000)) as [node], _channel(leader) as channel:
        allocation = asyncio.ensure_future(_allocate(channel))
        await asyncio.sleep(0)
        leader.names(3, node)
        assert await allocation == 1000


async def test_not_controller_is_asked_again_until_the_quorum_names_another() -> None:
    leader = LeaderInTest()
    former = _refusal(ErrorCode.NOT_CONTROLLER)
    async with _controllers(former, _ids(2000)) as [old, new], _channel(leader) as channel:
        leader.names(3, old)
        allocation = asyncio.ensure_future(_allocate(channel))
        await old.until_requests(2)
        leader.names(4, new)
        assert await allocation == 2000


async def test_a_connection_that_is_cut_is_opened_again() -> None:
    leader = LeaderInTest()
    answers: list[Message | None] = [
        None,
        None,
        wire.AllocateProducerIdsResponse(producer_id_start=7),
    ]
    async with _controllers(lambda _: answers.pop(0)) as [node], _channel(leader) as channel:
        leader.names(3, node)
        assert await _allocate(channel) == 7
        assert node.connections == 3


async def test_a_try_without_a_response_is_followed_by_another() -> None:
    leader = LeaderInTest()
    async with _controllers(never) as [node], _channel(leader, 50) as channel:
        leader.names(3, node)
        allocation = asyncio.ensure_future(_allocate(channel))
        await node.until_requests(2)
        node.script[ApiKey.ALLOCATE_PRODUCER_IDS] = _ids(9)
        assert await allocation == 9


async def test_a_connection_without_a_response_is_kept_until_another_has_one() -> None:
    """A controller may take the end of a connection for the end of its broker's process."""
    leader = LeaderInTest()
    async with (
        _controllers(never) as [node],
        _channel(leader, 50, keeps_late_connections=True) as channel,
    ):
        leader.names(3, node)
        allocation = asyncio.ensure_future(_allocate(channel))
        await node.until_requests(3)
        assert (node.connections, node.hung_up) == (3, 0)
        node.script[ApiKey.ALLOCATE_PRODUCER_IDS] = _ids(9)
        assert await allocation == 9
        await node.until_hung_up(3)
        assert await _allocate(channel) == 9
        assert node.connections == 4


async def test_of_many_connections_without_a_response_the_oldest_is_closed() -> None:
    leader = LeaderInTest()
    async with (
        _controllers(never) as [node],
        _channel(leader, 50, keeps_late_connections=True) as channel,
    ):
        leader.names(3, node)
        allocation = asyncio.ensure_future(_allocate(channel))
        await node.until_requests(DESERTED_MAX + 2)
        await node.until_hung_up(1)
        assert node.connections - node.hung_up <= DESERTED_MAX + 1
        allocation.cancel()


async def test_a_new_leader_ends_the_wait_for_a_frozen_one() -> None:
    leader = LeaderInTest()
    async with _controllers(never, _ids(2000)) as [frozen, new], _channel(leader) as channel:
        leader.names(3, frozen)
        allocation = asyncio.ensure_future(_allocate(channel))
        await frozen.until_requests(1)
        leader.names(-1, None)
        await asyncio.sleep(0)
        assert not allocation.done()
        leader.names(4, new)
        assert await allocation == 2000


async def test_an_item_that_was_not_decided_makes_the_request_be_sent_again() -> None:
    leader = LeaderInTest()
    codes = [ErrorCode.NOT_CONTROLLER, ErrorCode.TOPIC_ALREADY_EXISTS]

    def create(_: Message) -> Message:
        return wire.CreateTopicsResponse(
            topics=[wire.CreatableTopicResult(name="t", error_code=codes.pop(0))]
        )

    node = ScriptedController({ApiKey.CREATE_TOPICS: create})
    await node.start()
    async with _channel(leader) as channel:
        leader.names(3, node)
        response = await channel.request(
            wire.CreateTopicsRequest(), wire.CreateTopicsResponse, _TIMEOUT_MS
        )
        assert [topic.error_code for topic in response.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]
    await node.stop()


async def test_the_time_ends_without_a_leader() -> None:
    async with _channel(LeaderInTest()) as channel:
        with pytest.raises(KafkaError, match="no controller is active") as failure:
            await _allocate(channel, 250)
    assert failure.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_the_time_ends_with_what_the_last_try_met() -> None:
    leader = LeaderInTest()
    async with _controllers(_refusal(ErrorCode.NOT_CONTROLLER)) as [node]:
        async with _channel(leader) as channel:
            leader.names(3, node)
            with pytest.raises(KafkaError, match="controller 3 is not the active one") as failure:
                await _allocate(channel, 250)
    assert failure.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_other_errors_are_for_the_caller() -> None:
    leader = LeaderInTest()
    async with _controllers(_refusal(ErrorCode.STALE_BROKER_EPOCH)) as [node]:
        async with _channel(leader) as channel:
            leader.names(3, node)
            response = await channel.request(
                wire.AllocateProducerIdsRequest(), wire.AllocateProducerIdsResponse, _TIMEOUT_MS
            )
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_a_controller_that_does_not_serve_an_api_is_named() -> None:
    leader = LeaderInTest()
    async with _controllers(_ids(1)) as [node], _channel(leader) as channel:
        leader.names(3, node)
        with pytest.raises(
            KafkaError, match="does not support a version of UnregisterBroker"
        ) as bad:
            await channel.request(
                wire.UnregisterBrokerRequest(), wire.UnregisterBrokerResponse, _TIMEOUT_MS
            )
    assert bad.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_too_many_requests_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_channel, "REQUESTS_MAX", 2)
    async with _channel(LeaderInTest()) as channel:
        waiting = [asyncio.ensure_future(_allocate(channel)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(KafkaError, match="already wait") as failure:
            await _allocate(channel)
        assert failure.value.code is ErrorCode.REQUEST_TIMED_OUT
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_closed_channel_ends_its_requests() -> None:
    leader = LeaderInTest()
    async with _controllers(never) as [node]:
        async with _channel(leader) as channel:
            leader.names(3, node)
            allocation = asyncio.ensure_future(_allocate(channel))
            await node.until_requests(1)
        with pytest.raises(KafkaError) as failure:
            await allocation
    assert failure.value.code is ErrorCode.NETWORK_EXCEPTION
