"""Registers a controller's addresses and features (KIP-919; `ControllerRegistrationManager`).

Administrators that bootstrap from controllers need the addresses of all of them. Each controller
sends its registration to the active one, which may be itself, until its own image has it: after its
start, and after a change of the leader, which may have lost it. After a failure it waits longer
each time.
"""

import asyncio
import logging
from collections.abc import Callable

from ...clients.errors import KafkaError
from ...clients.network.refusal import raise_for
from ...clients.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ...clients.runtime.backoff import Backoff
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...replication.control.brokers.registration import ControllerRegistrationData
from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
from ...replication.metadata.metadata_records import METADATA_VERSION_FEATURE
from .controller_channel import ControllerChannel, LeaderView
from .sent_registrations import sent_features, sent_listeners

_log = logging.getLogger(__name__)

_FIRST_METADATA_VERSION = 15
"""3.7-IV0 brought the record of a controller's registration."""
_REQUEST_TIMEOUT_MS = 30_000
_BACKOFF = Backoff(100, 120_000)
_RECORD_S = 10.0
"""How long an accepted registration may take to come with an image."""


class ControllerRegistration:
    """See the top of this file. `publish` is for `Controller.subscribe`.

    The channel is closed by `stop`; no one else should use it.
    """

    def __init__(
        self,
        data: ControllerRegistrationData,
        channel: ControllerChannel,
        member: LeaderView,
        environment: Environment,
        supervisor: Supervisor,
        on_registered: Callable[[], None] | None = None,
    ) -> None:
        """`on_registered` is called whenever an image has the registration.

        Whatever preceded the registration is in that image too.
        """
        self._data = data
        self._channel = channel
        self._environment = environment
        self._supervisor = supervisor
        self._on_registered = on_registered
        self._is_due = False
        self._failures = 0
        # Set when the registration has become due or done, and when the leader has changed.
        self._wake = asyncio.Event()
        self._tasks = TaskOwner(1)
        member.on_leader_change(self._wake.set)

    def start(self) -> None:
        """Begin to register, once an image shows that it is needed."""
        self._tasks.start(self._run(), "controller registration")

    async def stop(self) -> None:
        """Send nothing more, and close the channel."""
        await self._tasks.stop()
        await self._channel.close()

    def publish(self, image: ClusterImage, _: ClusterDelta) -> None:
        """Look whether a new image has the registration."""
        registered = image.controllers.get(self._data.controller_id)
        is_registered = (
            registered is not None and registered.incarnation_id == self._data.incarnation_id
        )
        if is_registered and self._on_registered is not None:
            self._on_registered()
        can_register = image.features.get(METADATA_VERSION_FEATURE, 0) >= _FIRST_METADATA_VERSION
        is_due = can_register and not is_registered
        if is_due is not self._is_due:
            self._is_due = is_due
            self._failures = 0
            self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if not self._is_due:
                await self._wake.wait()
                continue
            is_accepted = False
            with self._supervisor.attempt("Controller registration"):
                is_accepted = await self._register()
            self._failures += not is_accepted
            backoff_s = _BACKOFF.delay_seconds(self._failures, self._environment.random)
            try:
                async with asyncio.timeout(_RECORD_S if is_accepted else backoff_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _register(self) -> bool:
        """Send the registration; returns whether it was accepted."""
        data = self._data
        request = ControllerRegistrationRequest(
            controller_id=data.controller_id,
            incarnation_id=data.incarnation_id,
            zk_migration_ready=data.zk_migration_ready,
            listeners=sent_listeners(data.endpoints),
            features=sent_features(data.features),
        )
        try:
            response = await self._channel.request(
                request, ControllerRegistrationResponse, _REQUEST_TIMEOUT_MS
            )
            raise_for(response.error_code, response.error_message or "")
        except KafkaError as error:
            _log.info("Could not register controller %d: %s", data.controller_id, error)
            return False
        _log.info("Registered controller %d with the active controller", data.controller_id)
        return True
