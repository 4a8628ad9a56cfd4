"""A client logs in before its first request, and again before its session ends."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.first_contact import ensure_answers
from tierlog.clients.network.network import NetworkClient, NetworkConfig
from tierlog.clients.network.security import ConnectionSecurity
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.clients.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tierlog.clients.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tierlog.clients.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tierlog.clients.protocol.schema import Message
from tierlog.clients.sasl.client_mechanism import client_mechanism
from tierlog.clients.sasl.secret import Secret
from tierlog.tests.clients.model_cluster import HangUpError, ModelBroker, ModelCluster
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork

METADATA = MetadataRequest(topics=None)


@dataclass
class Door:
    """The control of a listener with PLAIN: it notes what no client may do."""

    password: bytes = b"secret"
    lifetime_ms: int = 0
    logins: list[float] = field(default_factory=list[float])
    is_between: bool = False
    """Whether a handshake was answered, and the token has not come."""

    def __call__(self, _: ModelBroker, request: Message) -> Message | None:
        now = asyncio.get_running_loop().time()
        match request:
            case ApiVersionsRequest():
                return None
            case SaslHandshakeRequest(mechanism=name):
                self.is_between = name == "PLAIN"
                code = ErrorCode.NONE if self.is_between else ErrorCode.UNSUPPORTED_SASL_MECHANISM
                return SaslHandshakeResponse(error_code=code, mechanisms=["PLAIN", "GSSAPI"])
            case SaslAuthenticateRequest(auth_bytes=token):
                assert self.is_between, "a token without a handshake"
                self.is_between = False
                if token != b"\0alice\0" + self.password:
                    return SaslAuthenticateResponse(
                        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                        error_message="Authentication failed: Invalid username or password",
                    )
                self.logins.append(now)
                return SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms)
            case _:
                pass
        assert not self.is_between, "a request between those of a login"
        lasts = not self.lifetime_ms or now < self.logins[-1] + self.lifetime_ms / 1000
        if not (self.logins and lasts):
            raise HangUpError
        return None


pytestmark = pytest.mark.simulated(time_limit_s=600)


@asynccontextmanager
async def a_client(
    loop: SimulatedLoop, door: Door, *, may_retry: bool = False, mechanism: str = "PLAIN"
) -> AsyncGenerator[tuple[ModelCluster, NetworkClient]]:
    login = client_mechanism(mechanism, "alice", Secret("secret"))
    security = ConnectionSecurity(login=login, may_retry_login=may_retry)
    cluster = ModelCluster(SimulatedNetwork(loop))
    cluster.control = door
    await cluster.start()
    client = NetworkClient(
        cluster.bootstrap,
        SimulatedEnvironment(loop),
        NetworkConfig(security=security, max_in_flight_requests_per_connection=2),
    )
    try:
        yield cluster, client
    finally:
        await client.close()


async def failure_of(work: Coroutine[Any, Any, object]) -> tuple[ErrorCode, str]:
    with pytest.raises(KafkaError) as raised:
        await work
    assert "secret" not in raised.value.message
    return raised.value.code, raised.value.message


async def test_the_login_comes_before_the_first_request(loop: SimulatedLoop) -> None:
    door = Door()
    async with a_client(loop, door) as (cluster, client):
        await asyncio.gather(*(client.request(-1, METADATA, MetadataResponse) for _ in range(9)))
        kinds = [type(each) for each in cluster.requests]
        assert kinds[:3] == [ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest]
        assert set(kinds[3:]) == {MetadataRequest}
        await asyncio.sleep(500)
        await client.request(-1, METADATA, MetadataResponse)
        assert len(door.logins) == 1


async def test_a_session_is_renewed_before_it_ends_and_nothing_comes_between(
    loop: SimulatedLoop,
) -> None:
    door = Door(lifetime_ms=2_000)
    async with a_client(loop, door) as (cluster, client):
        cluster.answer_delay_s = lambda _broker, _request: 0.05

        async def work() -> None:
            for _ in range(300):
                await client.request(-1, METADATA, MetadataResponse)

        # Twice as many tasks as may be in flight: some wait for their turn when a login begins.
        await asyncio.gather(*(work() for _ in range(4)))
        assert cluster.count(ApiVersionsRequest) == 1
        gaps = [later - before for before, later in zip(door.logins, door.logins[1:], strict=False)]
        assert len(gaps) > 5
        # From one answer to the next; between them both, requests of before are answered.
        assert all(1.7 <= gap < 2.2 for gap in gaps), gaps


async def test_a_session_that_ended_while_idle_is_renewed_by_the_next_request(
    loop: SimulatedLoop,
) -> None:
    door = Door(lifetime_ms=2_000)
    async with a_client(loop, door) as (cluster, client):
        for _ in range(3):
            await client.request(-1, METADATA, MetadataResponse)
            await asyncio.sleep(60)
        assert (len(door.logins), cluster.count(ApiVersionsRequest)) == (3, 1)


async def test_a_wrong_password_is_one_error_and_is_not_sent_again(loop: SimulatedLoop) -> None:
    async with a_client(loop, Door(b"another")) as (cluster, client):
        code, sentence = await failure_of(client.request_any(METADATA, MetadataResponse))
        assert code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert sentence == (
            "Cannot connect to broker0:9092: Authentication failed: Invalid username or password"
        )
        assert cluster.count(SaslAuthenticateRequest) == 1


async def test_a_node_tries_again_and_gets_in_once_its_user_is_there(loop: SimulatedLoop) -> None:
    door = Door(b"another")
    async with a_client(loop, door, may_retry=True) as (_, client):
        code, sentence = await failure_of(client.request(-1, METADATA, MetadataResponse))
        assert code is ErrorCode.NETWORK_EXCEPTION
        assert "Invalid username or password" in sentence
        door.password = b"secret"
        await client.request(-1, METADATA, MetadataResponse)


async def test_a_refused_renewal_costs_the_connection(loop: SimulatedLoop) -> None:
    door = Door(lifetime_ms=2_000)
    async with a_client(loop, door) as (cluster, client):
        await client.request(-1, METADATA, MetadataResponse)
        await asyncio.sleep(3)
        door.password = b"another"
        code, sentence = await failure_of(client.request(-1, METADATA, MetadataResponse))
        assert code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert sentence.startswith("Cannot log in to broker0:9092 again: ")
        door.password = b"secret"
        await client.request(-1, METADATA, MetadataResponse)
        assert cluster.count(ApiVersionsRequest) == 2


async def test_a_request_that_is_given_up_during_a_renewal_leaves_no_half_login(
    loop: SimulatedLoop,
) -> None:
    door = Door(lifetime_ms=2_000)
    async with a_client(loop, door) as (cluster, client):
        await client.request(-1, METADATA, MetadataResponse)
        await asyncio.sleep(3)
        cluster.answer_delay_s = lambda _broker, _request: 1
        work = client.request(-1, METADATA, MetadataResponse, timeout_ms=1_500)
        assert (await failure_of(work))[0] is ErrorCode.REQUEST_TIMED_OUT
        cluster.answer_delay_s = lambda _broker, _request: 0
        door.is_between = False  # of the connection that has gone
        await client.request(-1, METADATA, MetadataResponse)
        assert cluster.count(ApiVersionsRequest) == 2


async def test_a_mechanism_that_the_listener_lacks_is_named_with_those_that_it_has(
    loop: SimulatedLoop,
) -> None:
    async with a_client(loop, Door(), mechanism="SCRAM-SHA-256") as (_, client):
        code, sentence = await failure_of(client.request(-1, METADATA, MetadataResponse))
        assert code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert "has not enabled SCRAM-SHA-256; its mechanisms are PLAIN, GSSAPI" in sentence


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE), "has no SASL"),
        (SaslHandshakeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), "with error -1"),
        (SaslAuthenticateResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), "with error -1"),
        (
            SaslAuthenticateResponse(error_code=58, error_message="\x1b[31m" + "x" * 9_999),
            "\\x1b[31mx",
        ),
    ],
)
async def test_whatever_refuses_the_login_is_said_in_one_safe_sentence(
    loop: SimulatedLoop, answer: Message, words: str
) -> None:
    class Refusing(Door):
        def __call__(self, broker: ModelBroker, request: Message) -> Message | None:
            usual = super().__call__(broker, request)
            return answer if type(usual) is type(answer) else usual

    async with a_client(loop, Refusing()) as (_, client):
        code, sentence = await failure_of(client.request(-1, METADATA, MetadataResponse))
        assert code is not ErrorCode.NETWORK_EXCEPTION
        assert words in sentence
        assert len(sentence) < 500


async def test_a_broker_before_sasl_authenticate_is_refused(loop: SimulatedLoop) -> None:
    class Old(Door):
        def __call__(self, _: ModelBroker, request: Message) -> Message | None:
            return ApiVersionsResponse() if isinstance(request, ApiVersionsRequest) else None

    async with a_client(loop, Old()) as (_, client):
        sentence = (await failure_of(client.request(-1, METADATA, MetadataResponse)))[1]
        assert "does not serve the requests of a login" in sentence


async def test_a_tool_does_not_try_a_refused_login_again(loop: SimulatedLoop) -> None:
    async with a_client(loop, Door(b"another")) as (cluster, _):
        assert isinstance(loop, SimulatedLoop)
        login = client_mechanism("PLAIN", "alice", Secret("secret"))
        work = ensure_answers(
            cluster.bootstrap, SimulatedEnvironment(loop), security=ConnectionSecurity(login=login)
        )
        refused, sentence = await failure_of(work)
        assert refused is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "listeners" not in sentence
        assert cluster.count(SaslAuthenticateRequest) == 1


async def test_who_gives_up_during_a_renewal_takes_the_connection_from_nobody(
    loop: SimulatedLoop,
) -> None:
    door = Door(lifetime_ms=60_000)
    async with a_client(loop, door) as (cluster, client):
        await client.request(-1, METADATA, MetadataResponse)
        await asyncio.sleep(50)
        cluster.answer_delay_s = lambda _, request: 8 if isinstance(request, MetadataRequest) else 0
        patient = asyncio.ensure_future(client.request(-1, METADATA, MetadataResponse))
        # The renewal is due, and its handshake waits behind the patient one's answer.
        await asyncio.sleep(7.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.request(-1, METADATA, MetadataResponse)
        assert (await patient).cluster_id == "model"
        await client.request(-1, METADATA, MetadataResponse)
        assert len(door.logins) == 2
        assert cluster.count(ApiVersionsRequest) == 1
