"""A broker registers, is unfenced, survives the loss of its controllers, and stops in order."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import pytest

from tierlog.broker.cluster.broker_lifecycle import BrokerLifecycle
from tierlog.broker.cluster.controller_channel import ControllerChannel
from tierlog.broker.cluster.lifecycle_config import LifecycleConfig
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from tierlog.clients.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tierlog.clients.protocol.schema import Message
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.replication.control.brokers.broker_life import BrokerLife
from tierlog.replication.control.brokers.registration import BrokerRegistrationData
from tierlog.replication.metadata.cluster_image import Endpoint
from tierlog.replication.metadata.metadata_records import SUPPORTED_FEATURES
from tierlog.tests.broker.cluster.scripted_controller import (
    TIMEOUT_S,
    LeaderInTest,
    ScriptedController,
    story,
)

_DIRECTORY = Uuid(bytes(range(100, 116)))
_REGISTRATION = BrokerRegistrationData(
    broker_id=7,
    cluster_id="cluster",
    incarnation_id=Uuid(bytes(range(16))),
    endpoints=[Endpoint("PLAINTEXT", "localhost", 9092, 0)],
    features=SUPPORTED_FEATURES,
    directories=[_DIRECTORY],
    rack="r1",
    previous_broker_epoch=3,
)
_QUICK = LifecycleConfig(heartbeat_interval_ms=50, registration_timeout_ms=TIMEOUT_S * 1000)
_SLOW = LifecycleConfig(
    heartbeat_interval_ms=TIMEOUT_S * 1000, registration_timeout_ms=TIMEOUT_S * 1000
)


@dataclass
class _Cluster:
    """A broker's lifecycle, and the controller that it speaks to."""

    lifecycle: BrokerLifecycle
    controller: ScriptedController
    leader: LeaderInTest
    fatal: asyncio.Queue[str]
    registrations: list[BrokerRegistrationRequest] = field(
        default_factory=list[BrokerRegistrationRequest]
    )
    heartbeats: list[BrokerHeartbeatRequest] = field(default_factory=list[BrokerHeartbeatRequest])
    refusals: list[ErrorCode] = field(default_factory=list[ErrorCode])
    """The errors of the next registrations."""
    heartbeat_errors: list[ErrorCode] = field(default_factory=list[ErrorCode])
    offset_of_registration: int = 0
    may_stop_after: int = 1
    """How many heartbeats of a controlled shutdown are answered before it may stop."""
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def register(self, request: Message) -> Message:
        assert isinstance(request, BrokerRegistrationRequest)
        self.registrations.append(request)
        self.moved.set()
        if self.refusals:
            return BrokerRegistrationResponse(error_code=self.refusals.pop(0))
        return BrokerRegistrationResponse(broker_epoch=40 + len(self.registrations))

    def heartbeat(self, request: Message) -> Message:
        assert isinstance(request, BrokerHeartbeatRequest)
        self.heartbeats.append(request)
        self.moved.set()
        if self.heartbeat_errors:
            return BrokerHeartbeatResponse(error_code=self.heartbeat_errors.pop(0))
        if request.want_shut_down:
            self.may_stop_after -= 1
        is_caught_up = request.current_metadata_offset >= self.offset_of_registration
        return BrokerHeartbeatResponse(
            is_caught_up=is_caught_up,
            is_fenced=request.want_fence or not is_caught_up,
            should_shut_down=request.want_shut_down and self.may_stop_after < 0,
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self.moved.clear()
                await self.moved.wait()

    def life(self) -> BrokerLife:
        return self.lifecycle.life

    def is_cut_off(self) -> bool:
        return self.lifecycle.is_cut_off

    async def until_running(self) -> None:
        await self.lifecycle.caught_up.wait()
        self.lifecycle.ready_to_unfence()
        await self.lifecycle.unfenced.wait()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 (nothing tells of a log line)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def _cluster(
    config: LifecycleConfig = _QUICK,
    offset: Callable[[], int] = lambda: 100,
    directory_failure_timeout_ms: int = TIMEOUT_S * 1000,
) -> AsyncGenerator[_Cluster]:
    controller = ScriptedController({})
    await controller.start()
    leader = LeaderInTest()
    leader.names(1, controller)
    channel = ControllerChannel(
        leader,
        SystemEnvironment(),
        client_id="heartbeats",
        request_timeout_ms=config.heartbeat_interval_ms,
    )
    fatal: asyncio.Queue[str] = asyncio.Queue()
    lifecycle = BrokerLifecycle(
        _REGISTRATION,
        config,
        channel,
        offset,
        Supervisor(Random(1)),
        fatal.put_nowait,
        directory_failure_timeout_ms=directory_failure_timeout_ms,
    )
    cluster = _Cluster(lifecycle, controller, leader, fatal)
    controller.script[ApiKey.BROKER_REGISTRATION] = cluster.register
    controller.script[ApiKey.BROKER_HEARTBEAT] = cluster.heartbeat
    try:
        yield cluster
    finally:
        await lifecycle.stop()
        await controller.stop()


@story
async def test_a_broker_registers_catches_up_and_is_unfenced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    offset = 0
    async with _cluster(_SLOW, lambda: offset) as cluster:
        cluster.offset_of_registration = 12
        lifecycle = cluster.lifecycle
        lifecycle.start()
        # Until it has caught up it asks every 10 ms, whatever the interval is.
        await cluster.until(lambda: len(cluster.heartbeats) >= 3)
        assert cluster.life() is BrokerLife.STARTING
        assert not lifecycle.caught_up.is_set()
        offset = 12
        await lifecycle.caught_up.wait()
        assert cluster.life() is BrokerLife.RECOVERY
        assert all(each.want_fence for each in cluster.heartbeats)
        lifecycle.ready_to_unfence()
        await lifecycle.unfenced.wait()
        assert cluster.life() is BrokerLife.RUNNING
        assert lifecycle.broker_epoch == 41
        last = cluster.heartbeats[-1]
        assert (last.broker_id, last.broker_epoch, last.current_metadata_offset) == (7, 41, 12)
        [registration] = cluster.registrations
        assert registration.cluster_id == "cluster"
        assert registration.previous_broker_epoch == 3
        assert registration.rack == "r1"
        assert registration.log_dirs == [_DIRECTORY]
        assert [each.name for each in registration.listeners] == ["PLAINTEXT"]
        assert {each.name for each in registration.features} == set(SUPPORTED_FEATURES)
    assert caplog.messages == [
        "Incarnation AAECAwQFBgcICQoLDA0ODw of broker 7 in cluster cluster is now STARTING.",
        "Successfully registered broker 7 with broker epoch 41",
        "The broker has caught up. Transitioning from STARTING to RECOVERY.",
        "The broker has been unfenced. Transitioning from RECOVERY to RUNNING.",
    ]


@story
async def test_a_refused_registration_is_tried_again_and_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with _cluster() as cluster:
        cluster.refusals = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 3
        cluster.lifecycle.start()
        await cluster.lifecycle.caught_up.wait()
        assert len(cluster.registrations) == 4
        assert sum("Unable to register broker 7" in each for each in caplog.messages) == 1
        assert cluster.fatal.empty()


@story
async def test_a_refusal_by_the_authorizer_says_where_to_name_the_broker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with _cluster() as cluster:
        cluster.refusals = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        cluster.lifecycle.start()
        await cluster.lifecycle.caught_up.wait()
        assert "name it in super.users of the controllers" in caplog.text


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "belong to another cluster"),
        (ErrorCode.INVALID_REGISTRATION, "log directories"),
        (ErrorCode.UNSUPPORTED_VERSION, "finalized features"),
    ],
)
def test_a_final_refusal_ends_the_start(code: ErrorCode, sentence: str) -> None:
    @story
    async def run() -> None:
        async with _cluster(_SLOW) as cluster:
            cluster.refusals = [code]
            cluster.lifecycle.start()
            assert sentence in await cluster.fatal.get()
            assert cluster.life() is BrokerLife.SHUTTING_DOWN

    run()


@story
async def test_a_refusal_names_the_features_that_the_broker_lacks() -> None:
    async with _cluster(_SLOW) as cluster:
        cluster.controller.finalized = {
            "metadata.version": 30,
            "transaction.version": 3,
            "share.version": 1,
        }
        cluster.refusals = [ErrorCode.UNSUPPORTED_VERSION]
        cluster.lifecycle.start()
        sentence = await cluster.fatal.get()
        assert "finalized share.version=1, transaction.version=3, which" in sentence
        lower = "--feature share.version=0 --feature transaction.version=2"
        assert f"`kafka-features.sh downgrade {lower}`" in sentence


@story
async def test_a_broker_that_cannot_register_in_time_stops() -> None:
    config = _QUICK._replace(registration_timeout_ms=300)
    async with _cluster(config) as cluster:
        cluster.leader.names(-1, None)
        cluster.lifecycle.start()
        assert "initial.broker.registration.timeout.ms" in await cluster.fatal.get()


@story
async def test_a_broker_cut_off_goes_on_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with _cluster() as cluster:
        cluster.lifecycle.start()
        await cluster.until_running()
        assert not cluster.is_cut_off()
        caplog.set_level(logging.INFO)
        caplog.clear()
        await cluster.controller.stop()
        await _until(lambda: len(caplog.messages) == 1)
        assert cluster.is_cut_off()
        assert cluster.life() is BrokerLife.RUNNING
        await asyncio.sleep(0.3)
        back = ScriptedController(cluster.controller.script)
        await back.start()
        cluster.leader.names(2, back)
        await _until(lambda: len(caplog.messages) == 2)
        assert not cluster.is_cut_off()
        cut, again = caplog.messages
        assert cut.startswith("Broker 7 is cut off from the controller quorum")
        assert again == "The active controller answers this broker again."
        await back.stop()
        assert cluster.fatal.empty()


@story
async def test_a_broker_without_registration_registers_again() -> None:
    async with _cluster() as cluster:
        cluster.lifecycle.start()
        await cluster.until_running()
        cluster.heartbeat_errors = [ErrorCode.STALE_BROKER_EPOCH]
        await cluster.until(lambda: len(cluster.registrations) == 2)
        await cluster.until(lambda: cluster.heartbeats[-1].broker_epoch == 42)
        assert cluster.lifecycle.broker_epoch == 42
        assert cluster.life() is BrokerLife.RUNNING
        # It serves all the time, so it does not ask to be fenced.
        assert not cluster.heartbeats[-1].want_fence


@story
async def test_a_failed_directory_is_reported_at_once_and_from_then_on() -> None:
    async with _cluster(_SLOW) as cluster:
        cluster.lifecycle.start()
        await cluster.until_running()
        cluster.lifecycle.report_offline([_DIRECTORY])
        await cluster.until(lambda: cluster.heartbeats[-1].offline_log_dirs == [_DIRECTORY])
        other = Uuid(bytes(range(50, 66)))
        cluster.lifecycle.report_offline([other])
        await cluster.until(lambda: cluster.heartbeats[-1].offline_log_dirs == [_DIRECTORY, other])


@story
async def test_a_directory_failure_that_cannot_be_reported_stops_the_broker() -> None:
    async with _cluster(directory_failure_timeout_ms=300) as cluster:
        cluster.lifecycle.start()
        await cluster.until_running()
        cluster.leader.names(-1, None)
        await cluster.controller.stop()
        cluster.lifecycle.report_offline([_DIRECTORY])
        assert "log.dir.failure.timeout.ms" in await cluster.fatal.get()


@story
async def test_a_broker_stops_once_the_controller_lets_it() -> None:
    config = _QUICK._replace(heartbeat_interval_ms=500)
    async with _cluster(config) as cluster:
        cluster.may_stop_after = 2
        cluster.lifecycle.start()
        await cluster.until_running()
        await cluster.lifecycle.controlled_shutdown()
        assert cluster.life() is BrokerLife.SHUTTING_DOWN
        assert [each.want_shut_down for each in cluster.heartbeats[-3:]] == [True] * 3
        assert not cluster.heartbeats[-1].want_fence


@story
async def test_a_controlled_shutdown_ends_without_a_controller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with _cluster() as cluster:
        cluster.lifecycle.start()
        await cluster.until_running()
        await cluster.controller.stop()
        await cluster.lifecycle.controlled_shutdown(timeout_ms=200)
        assert cluster.life() is BrokerLife.SHUTTING_DOWN
    assert any("stopping without it" in each for each in caplog.messages)


@story
async def test_without_controlled_shutdown_a_broker_stops_at_once() -> None:
    config = _QUICK._replace(controlled_shutdown=False)
    async with _cluster(config) as cluster:
        cluster.lifecycle.start()
        await cluster.until_running()
        await cluster.lifecycle.controlled_shutdown()
        assert cluster.life() is BrokerLife.SHUTTING_DOWN
        assert not any(each.want_shut_down for each in cluster.heartbeats)


@story
async def test_a_broker_that_starts_may_stop_at_once() -> None:
    async with _cluster() as cluster:
        cluster.lifecycle.start()
        await cluster.lifecycle.controlled_shutdown()
        assert cluster.life() is BrokerLife.SHUTTING_DOWN


@story
async def test_a_broker_that_never_served_does_not_say_that_it_goes_on_serving(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with _cluster() as cluster:
        cluster.leader.names(-1, None)
        await cluster.controller.stop()
        cluster.lifecycle.start()
        await _until(lambda: len(caplog.messages) == 1)
        assert caplog.messages[0].startswith("Broker 7 is not registered yet")
