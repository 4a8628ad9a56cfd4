"""A controller registers with the active one until its own image has the registration."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

from tierlog.broker.cluster.controller_channel import ControllerChannel
from tierlog.broker.cluster.controller_registration import ControllerRegistration
from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.schema import Message
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.replication.control.brokers.registration import ControllerRegistrationData
from tierlog.replication.metadata.cluster_image import (
    ClusterDelta,
    ClusterImage,
    ControllerImage,
    Endpoint,
)
from tierlog.replication.metadata.metadata_records import METADATA_VERSION_FEATURE
from tierlog.tests import wire
from tierlog.tests.broker.cluster.scripted_controller import LeaderInTest, ScriptedController

_INCARNATION = Uuid(bytes(range(16)))
_DATA = ControllerRegistrationData(
    controller_id=3,
    incarnation_id=_INCARNATION,
    endpoints=[Endpoint("CONTROLLER", "localhost", 9093, 0)],
    features={METADATA_VERSION_FEATURE: (7, 27)},
)
_NEW = replace(ClusterImage("cluster"), features={METADATA_VERSION_FEATURE: 27})


def _registered(incarnation_id: Uuid) -> ClusterImage:
    controller = ControllerImage(3, incarnation_id, False, {}, {})
    return replace(_NEW, controllers={3: controller})


@asynccontextmanager
async def _registration(
    refusals: list[ErrorCode],
) -> AsyncGenerator[tuple[ControllerRegistration, ScriptedController, LeaderInTest]]:
    def register(_: Message) -> Message:
        code = refusals.pop(0) if refusals else ErrorCode.NONE
        return wire.ControllerRegistrationResponse(error_code=code, error_message=None)

    controller = ScriptedController({ApiKey.CONTROLLER_REGISTRATION: register})
    await controller.start()
    leader = LeaderInTest()
    leader.names(1, controller)
    environment = SystemEnvironment()
    channel = ControllerChannel(
        leader, environment, client_id="registration", request_timeout_ms=30_000
    )
    supervisor = Supervisor(Random(1))
    registration = ControllerRegistration(_DATA, channel, leader, environment, supervisor)
    registration.start()
    try:
        yield registration, controller, leader
        assert not supervisor.failures
    finally:
        await registration.stop()
        await controller.stop()


def _publish(registration: ControllerRegistration, image: ClusterImage) -> None:
    registration.publish(image, ClusterDelta.between(ClusterImage("cluster"), image))


async def test_it_registers_until_its_image_has_it() -> None:
    async with _registration([ErrorCode.REQUEST_TIMED_OUT]) as (registration, controller, _):
        await asyncio.sleep(0.05)
        assert not controller.requests, "it does not know yet whether it is registered"
        # Its former incarnation is registered.
        _publish(registration, _registered(Uuid(bytes(16))))
        # The first is refused, the second accepted.
        await controller.until_requests(2)
        _publish(registration, _registered(_INCARNATION))
        sent = controller.requests[0]
        assert isinstance(sent, wire.ControllerRegistrationRequest)
        assert (sent.controller_id, sent.incarnation_id) == (3, _INCARNATION)
        assert [each.name for each in sent.listeners] == ["CONTROLLER"]
        assert [each.name for each in sent.features] == [METADATA_VERSION_FEATURE]
        await asyncio.sleep(0.3)
        assert len(controller.requests) == 2
        # An image without it makes it due again.
        _publish(registration, _NEW)
        await controller.until_requests(3)


async def test_it_registers_again_with_another_leader() -> None:
    async with _registration([]) as (registration, controller, leader):
        _publish(registration, _NEW)
        await controller.until_requests(1)
        # The first leader has accepted it, and lost the lead before the record was committed.
        leader.names(2, controller)
        await controller.until_requests(2)


async def test_a_registered_controller_sends_nothing() -> None:
    async with _registration([]) as (registration, controller, _):
        _publish(registration, _registered(_INCARNATION))
        await asyncio.sleep(0.2)
        assert not controller.requests


async def test_an_old_cluster_has_no_such_record() -> None:
    async with _registration([]) as (registration, controller, _):
        _publish(registration, replace(_NEW, features={METADATA_VERSION_FEATURE: 14}))
        await asyncio.sleep(0.2)
        assert not controller.requests
        _publish(registration, _NEW)
        await controller.until_requests(1)
