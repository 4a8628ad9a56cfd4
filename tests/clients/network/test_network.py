"""The network client connects, agrees on versions, waits within bounds, and trusts nobody."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.network import Address, NetworkClient, NetworkConfig, parse_bootstrap
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.clients.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tierlog.clients.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tierlog.clients.protocol.schema import Message
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.tests.async_tests import entered
from tierlog.tests.clients.model_cluster import HangUpError, ModelBroker, ModelCluster, SilenceError
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork

pytestmark = pytest.mark.simulated(time_limit_s=600)

METADATA = MetadataRequest(topics=None)


@asynccontextmanager
async def a_client(
    loop: SimulatedLoop, cluster: ModelCluster, config: NetworkConfig | None = None
) -> AsyncGenerator[NetworkClient]:
    await cluster.start()
    client = NetworkClient(cluster.bootstrap, SimulatedEnvironment(loop), config)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def cluster(loop: SimulatedLoop) -> ModelCluster:
    return ModelCluster(SimulatedNetwork(loop))


@pytest.fixture
def client(loop: SimulatedLoop, cluster: ModelCluster) -> NetworkClient:
    return entered(a_client(loop, cluster))


def silent(_broker: ModelBroker, _request: Message) -> None:
    """It takes requests and answers none."""
    raise SilenceError


async def code_of(work: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as refusal:
        await work
    return refusal.value.code


async def test_the_first_request_of_a_connection_asks_for_the_versions(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    response = await client.request(-1, METADATA, MetadataResponse)
    assert response.cluster_id == "model"
    first, second = cluster.requests
    assert isinstance(first, ApiVersionsRequest)
    assert first.client_software_name == "tierlog"
    assert isinstance(second, MetadataRequest)


async def test_many_requests_share_one_connection_and_find_their_answers(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    cluster.create_topic("t", 1)
    asked = (client.request(-1, METADATA, MetadataResponse) for _ in range(50))
    responses = await asyncio.gather(*asked)
    assert {response.topics[0].name for response in responses} == {"t"}
    assert cluster.count(ApiVersionsRequest) == 1


async def test_no_more_requests_are_in_flight_than_configured(
    loop: SimulatedLoop, cluster: ModelCluster
) -> None:
    config = NetworkConfig(max_in_flight_requests_per_connection=3)
    async with a_client(loop, cluster, config) as client:

        def control(_: ModelBroker, request: Message) -> None:
            if isinstance(request, MetadataRequest):
                raise SilenceError

        await client.request(-1, METADATA, MetadataResponse)
        cluster.requests.clear()
        cluster.control = control
        asked = [client.request(-1, METADATA, MetadataResponse, timeout_ms=500) for _ in range(9)]
        failures = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(failure, KafkaError) for failure in failures)
        assert cluster.count(MetadataRequest) == 3


async def test_an_old_broker_is_asked_again_in_version_0(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    def control(_: ModelBroker, request: Message) -> Message | None:
        if isinstance(request, ApiVersionsRequest) and request.client_software_name:
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return None

    cluster.control = control
    await client.request(-1, METADATA, MetadataResponse)
    assert cluster.count(ApiVersionsRequest) == 2


async def test_an_api_that_the_broker_lacks_is_an_unsupported_version(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    cluster.control = lambda _, request: (
        ApiVersionsResponse() if isinstance(request, ApiVersionsRequest) else None
    )
    code = await code_of(client.request(-1, METADATA, MetadataResponse))
    assert code is ErrorCode.UNSUPPORTED_VERSION


async def test_a_broker_that_does_not_answer_costs_its_timeout_and_its_connection(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    def control(_: ModelBroker, request: Message) -> None:
        if isinstance(request, HeartbeatRequest):
            raise SilenceError

    cluster.control = control
    loop = asyncio.get_running_loop()
    started = loop.time()
    asked = client.request(-1, HeartbeatRequest(), HeartbeatResponse, timeout_ms=2000)
    assert await code_of(asked) is ErrorCode.REQUEST_TIMED_OUT
    assert loop.time() - started == pytest.approx(2, abs=0.1)
    # The next request opens a new connection: a late answer cannot be taken for its own.
    await client.request(-1, METADATA, MetadataResponse)
    assert cluster.count(ApiVersionsRequest) == 2


async def test_a_broken_connection_fails_what_is_in_flight_and_the_next_request_reconnects(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    def control(_: ModelBroker, request: Message) -> None:
        if isinstance(request, HeartbeatRequest):
            raise HangUpError

    cluster.control = control
    asked = client.request(-1, HeartbeatRequest(), HeartbeatResponse)
    assert await code_of(asked) is ErrorCode.NETWORK_EXCEPTION
    await client.request(-1, METADATA, MetadataResponse)


async def test_attempts_to_reach_a_dead_broker_are_spread_by_a_growing_back_off(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    cluster.brokers[0].crash()
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    for _ in range(8):
        started = loop.time()
        asked = client.request(-1, METADATA, MetadataResponse)
        assert await code_of(asked) is ErrorCode.NETWORK_EXCEPTION
        waits.append(loop.time() - started)
    assert waits[0] < 0.01
    for wait, expected in zip(waits[1:], (0.05, 0.1, 0.2, 0.4, 0.8, 1, 1), strict=True):
        assert expected * 0.79 <= wait <= expected * 1.21


async def test_the_back_off_counts_towards_the_requests_timeout(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    cluster.brokers[0].crash()
    await code_of(client.request(-1, METADATA, MetadataResponse))
    asked = client.request(-1, METADATA, MetadataResponse, timeout_ms=10)
    assert await code_of(asked) is ErrorCode.REQUEST_TIMED_OUT


def test_any_broker_that_answers_will_do() -> None:
    async def story(loop: SimulatedLoop) -> None:
        cluster = ModelCluster(SimulatedNetwork(loop), 3)
        async with a_client(loop, cluster) as client:
            cluster.brokers[0].crash()
            cluster.brokers[2].crash()
            for _ in range(5):
                response = await client.request_any(METADATA, MetadataResponse)
                assert response.cluster_id == "model"

    for seed in range(5):
        simulate(story, seed, time_limit_s=600)


async def test_a_broker_with_requests_unanswered_is_not_asked_while_another_is_free(
    loop: SimulatedLoop,
) -> None:
    """A paused one stays connected; whoever asks it waits for the whole timeout."""
    cluster = ModelCluster(SimulatedNetwork(loop), 3)
    async with a_client(loop, cluster) as client:
        for node_id in (-1, -2, -3):
            await client.request(node_id, METADATA, MetadataResponse)

        def control(broker: ModelBroker, _request: Message) -> None:
            if broker.node_id == 1:
                raise SilenceError

        cluster.control = control
        hanging = asyncio.ensure_future(client.request(-2, METADATA, MetadataResponse))
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        for _ in range(20):
            await client.request_any(METADATA, MetadataResponse)
        assert asyncio.get_running_loop().time() - began < 1
        assert await code_of(hanging) is ErrorCode.REQUEST_TIMED_OUT


async def test_when_no_broker_answers_the_last_failure_is_reported(loop: SimulatedLoop) -> None:
    cluster = ModelCluster(SimulatedNetwork(loop), 2)
    async with a_client(loop, cluster) as client:
        for broker in cluster.brokers:
            broker.crash()
        asked = client.request_any(METADATA, MetadataResponse)
        assert await code_of(asked) is ErrorCode.NETWORK_EXCEPTION


async def test_a_node_that_metadata_does_not_name_cannot_be_reached(client: NetworkClient) -> None:
    code = await code_of(client.request(7, METADATA, MetadataResponse))
    assert code is ErrorCode.NETWORK_EXCEPTION


async def test_a_broker_that_moved_is_reached_at_its_new_address(client: NetworkClient) -> None:
    client.update_nodes({0: Address("broker0", 9092)})
    await client.request(0, METADATA, MetadataResponse)
    client.update_nodes({0: Address("nowhere", 9092)})
    code = await code_of(client.request(0, METADATA, MetadataResponse))
    assert code is ErrorCode.NETWORK_EXCEPTION
    client.update_nodes({0: Address("broker0", 9092)})
    await client.request(0, METADATA, MetadataResponse)


async def test_a_caller_who_gives_up_leaves_the_connection_in_step(client: NetworkClient) -> None:
    await client.request(-1, METADATA, MetadataResponse)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.000_01):
            await client.request(-1, METADATA, MetadataResponse)
    for _round in range(10):
        response = await client.request(-1, METADATA, MetadataResponse)
        assert response.cluster_id == "model"


async def test_a_connection_that_stays_silent_is_closed_though_nobody_waits_any_more(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    await client.request(-1, METADATA, MetadataResponse)
    cluster.control = silent
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await client.request(-1, METADATA, MetadataResponse)
    other = asyncio.ensure_future(client.request(-1, METADATA, MetadataResponse))
    await asyncio.sleep(24)
    assert not other.done()
    await asyncio.sleep(2)
    assert await code_of(other) is ErrorCode.REQUEST_TIMED_OUT
    cluster.control = lambda _broker, _request: None
    assert (await client.request(-1, METADATA, MetadataResponse)).cluster_id == "model"


async def test_a_connection_comes_up_though_whoever_asked_for_it_has_given_up(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    """Calls shorter than a slow handshake never connected, and opened one connection each."""
    cluster.answer_delay_s = lambda _, request: 1.2 * isinstance(request, ApiVersionsRequest)
    for _try in range(2):
        assert (
            await code_of(client.request(-1, METADATA, MetadataResponse, timeout_ms=500))
            is ErrorCode.REQUEST_TIMED_OUT
        )
    await client.request(-1, METADATA, MetadataResponse, timeout_ms=500)
    assert len(cluster.brokers[0].connections) == 1


async def test_a_caller_that_waits_for_a_connection_gets_an_error_at_the_close(
    cluster: ModelCluster, client: NetworkClient
) -> None:
    cluster.control = silent
    waiting = asyncio.ensure_future(client.request(-1, METADATA, MetadataResponse))
    await asyncio.sleep(1)
    await client.close()
    assert await code_of(waiting) is ErrorCode.NETWORK_EXCEPTION


async def test_a_closed_client_refuses_requests(client: NetworkClient) -> None:
    await client.request(-1, METADATA, MetadataResponse)
    await client.close()
    code = await code_of(client.request(-1, METADATA, MetadataResponse))
    assert code is ErrorCode.NETWORK_EXCEPTION


def test_bootstrap_addresses_are_hosts_with_ports() -> None:
    assert parse_bootstrap("a:1, [::1]:9092") == [Address("a", 1), Address("::1", 9092)]
    assert str(Address("::1", 9092)) == "[::1]:9092"
    for wrong in ("a", "a:", ":1", "a:70000", "a:x", "a:0"):
        with pytest.raises(KafkaError) as refusal:
            parse_bootstrap(wrong)
    with pytest.raises(KafkaError, match=r"is not HOST:PORT"):
        parse_bootstrap("localhost")
        assert refusal.value.code is ErrorCode.INVALID_CONFIG
    for bare in ("::1", "::1:9092", "[::1:9092"):
        with pytest.raises(KafkaError, match=r"in brackets, as in \[::1\]:9092|is not HOST:PORT"):
            parse_bootstrap(bare)


@pytest.mark.parametrize("port", [-1, 65_536, 2**31 - 1])
async def test_a_port_that_cannot_be_is_as_good_as_a_dead_broker(port: int) -> None:
    client = NetworkClient((), SystemEnvironment())
    client.add_node(0, Address("127.0.0.1", port))
    with pytest.raises(KafkaError, match="there is no such port") as refusal:
        await client.request(0, METADATA, MetadataResponse)
    assert refusal.value.code is ErrorCode.NETWORK_EXCEPTION
    await client.close()


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..b", "nul\0nul", ""])
async def test_a_host_that_can_be_no_name_is_as_good_as_a_dead_broker(host: str) -> None:
    client = NetworkClient((), SystemEnvironment())
    client.add_node(0, Address(host, 0))
    code = await code_of(client.request(0, METADATA, MetadataResponse))
    assert code is ErrorCode.NETWORK_EXCEPTION
    await client.close()
