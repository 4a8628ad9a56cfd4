"""Registers a broker with the active controller and keeps it alive (`BrokerLifecycleManager`).

    STARTING -> registered, has caught up -> RECOVERY -> unfenced -> RUNNING
    RUNNING -> asked to stop -> PENDING_CONTROLLED_SHUTDOWN -> may stop -> SHUTTING_DOWN

One request is in flight at a time. The next one follows after the heartbeat interval, whether the
last one succeeded or failed, and no request waits for its response longer than that interval: with
a growing backoff, brokers were fenced after short outages (KAFKA-19294). Only a broker that catches
up, that has just begun to stop, or that has something to report sends its next heartbeat earlier.

A broker that the controllers do not answer goes on serving what it leads. Its log says so once, and
once more when a controller has answered again.

Two things differ from Apache Kafka. A refusal that no later try can change ends the start at once,
not after `initial.broker.registration.timeout.ms`. And a broker whose registration is gone
(STALE_BROKER_EPOCH) registers again: Kafka's broker goes on with heartbeats that are refused.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid, uuid_to_string
from ...clients.network.refusal import refusal
from ...clients.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ...clients.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...replication.control.brokers.broker_life import (
    TRANSITIONS,
    BrokerLife,
    LifeEvent,
    request_delay_ms,
)
from ...replication.control.brokers.registration import BrokerRegistrationData
from .controller_channel import ControllerChannel
from .lifecycle_config import LifecycleConfig
from .refused_registration import FATAL, reason_of
from .sent_registrations import sent_features, sent_listeners

_log = logging.getLogger(__name__)

NOT_REGISTERED = -1
"""The broker epoch before the first registration."""

DIRECTORY_FAILURE_TIMEOUT_MS = 30_000
"""The default of `log.dir.failure.timeout.ms`."""

CONTROLLED_SHUTDOWN_TIMEOUT_MS = 300_000
"""How long Kafka's broker waits until the controller lets it stop."""

_FIRST_SHUTDOWN_POLL_MS = 50
_CUT_OFF_INTERVALS = 3
"""After so many heartbeat intervals without an answer the broker counts as cut off."""


class BrokerLifecycle:
    """See the top of this file. The channel is closed by `stop`; no one else should use it."""

    def __init__(
        self,
        registration: BrokerRegistrationData,
        config: LifecycleConfig,
        channel: ControllerChannel,
        metadata_offset: Callable[[], int],
        supervisor: Supervisor,
        on_fatal: Callable[[str], None],
        *,
        directory_failure_timeout_ms: int = DIRECTORY_FAILURE_TIMEOUT_MS,
    ) -> None:
        """`metadata_offset` returns the offset up to which this broker has replayed metadata.

        `on_fatal` is called with a message when the broker must stop.
        """
        self._registration = registration
        self._config = config
        self._channel = channel
        self._metadata_offset = metadata_offset
        self._supervisor = supervisor
        self._directory_failure_timeout_ms = directory_failure_timeout_ms
        self.life = BrokerLife.STARTING
        self.broker_epoch = NOT_REGISTERED
        """The epoch of the registration, which a clean stop writes to its file; -1 before."""
        self.caught_up = asyncio.Event()
        self.unfenced = asyncio.Event()
        self._on_fatal = on_fatal
        self._is_registered = False
        self._refusal: ErrorCode | None = None  # named in the log
        self._is_ready = False
        self._shutdown_polls = 0
        # By directory: when its failure must have been reported; None once it was.
        self._offline: dict[Uuid, float | None] = {}
        self._at_once = asyncio.Event()
        self._has_ended = asyncio.Event()
        self._tasks = TaskOwner(1)
        self._started_at = 0.0
        self._last_answer = 0.0
        self._was_cut_off = False

    def start(self) -> None:
        """Begin to register, and to send heartbeats."""
        self._started_at = self._last_answer = asyncio.get_running_loop().time()
        _log.info(
            "Incarnation %s of broker %d in cluster %s is now STARTING.",
            uuid_to_string(self._registration.incarnation_id),
            self._registration.broker_id,
            self._registration.cluster_id,
        )
        self._tasks.start(self._run(), "broker heartbeats")

    def ready_to_unfence(self) -> None:
        """From now on ask to be unfenced: this broker can serve."""
        self._is_ready = True
        self._at_once.set()

    def report_offline(self, directories: Collection[Uuid]) -> None:
        """Report failed log directories at once, and in each later heartbeat.

        If the report is not acknowledged within the timeout, the broker must stop.
        """
        limit = asyncio.get_running_loop().time() + self._directory_failure_timeout_ms / 1000
        for directory in directories:
            self._offline.setdefault(directory, limit)
        self._at_once.set()

    @property
    def is_cut_off(self) -> bool:
        """Whether no controller has answered for several heartbeat intervals."""
        silence_s = asyncio.get_running_loop().time() - self._last_answer
        return silence_s * 1000 > self._config.heartbeat_interval_ms * _CUT_OFF_INTERVALS

    async def controlled_shutdown(self, timeout_ms: int = CONTROLLED_SHUTDOWN_TIMEOUT_MS) -> None:
        """Ask the controller to move this broker's leaderships; return when the broker may stop.

        Returns after `timeout_ms` at the latest, and at once if the broker does not run yet or
        controlled shutdown is disabled.
        """
        if self.life is BrokerLife.RUNNING:
            _log.info("Beginning controlled shutdown.")
        if self.life not in (BrokerLife.PENDING_CONTROLLED_SHUTDOWN, BrokerLife.SHUTTING_DOWN):
            self._move(LifeEvent.STOP)
        if self.life is BrokerLife.PENDING_CONTROLLED_SHUTDOWN and self._config.controlled_shutdown:
            self._at_once.set()
            try:
                await asyncio.wait_for(self._has_ended.wait(), timeout_ms / 1000)
            except TimeoutError:
                _log.warning(
                    "The active controller did not end the controlled shutdown within %d ms:"
                    " stopping without it.",
                    timeout_ms,
                )
        self._end()

    def abandon_shutdown(self, why: str) -> None:
        """Stop without the controller: no controller is left that could let this broker go."""
        if self.life is BrokerLife.PENDING_CONTROLLED_SHUTDOWN:
            _log.warning("%s: this broker stops without an active controller.", why)
        self._end()

    async def stop(self) -> None:
        """Send nothing more, and close the channel."""
        self._end()
        await self._tasks.stop()
        await self._channel.close()

    def _move(self, event: LifeEvent) -> None:
        self.life = TRANSITIONS[self.life, event]
        if self.life is BrokerLife.SHUTTING_DOWN:
            self._has_ended.set()
            self._at_once.set()

    def _end(self) -> None:
        if self.life is BrokerLife.PENDING_CONTROLLED_SHUTDOWN:
            self._move(LifeEvent.MAY_STOP)
        elif self.life is not BrokerLife.SHUTTING_DOWN:
            self.life = BrokerLife.SHUTTING_DOWN
            self._has_ended.set()
            self._at_once.set()

    def _fail(self, message: str) -> None:
        self._end()
        self._on_fatal(message)

    async def _run(self) -> None:
        while self.life is not BrokerLife.SHUTTING_DOWN:
            self._at_once.clear()
            delay_ms: float = self._config.heartbeat_interval_ms
            with self._supervisor.attempt("Broker heartbeats"):
                has_answer = await self._communicate()
                delay_ms = self._delay_ms(has_answer)
            self._check_deadlines()
            await self._pause(delay_ms)

    async def _communicate(self) -> bool:
        """Register, or send a heartbeat; returns whether a heartbeat was accepted."""
        try:
            if not self._is_registered:
                await self._register()
                return False
            await self._send_heartbeat()
        except KafkaError as error:
            await self._on_failure(error)
            return False
        return True

    def _delay_ms(self, has_answer: bool) -> float:
        interval_ms = self._config.heartbeat_interval_ms
        if self.life is BrokerLife.PENDING_CONTROLLED_SHUTDOWN and self._shutdown_polls == 1:
            return _FIRST_SHUTDOWN_POLL_MS
        return request_delay_ms(self.life, interval_ms, has_answer)

    async def _pause(self, delay_ms: float) -> None:
        """Wait for the next request, or less if something must be sent at once."""
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_ms / 1000
        limits = [limit for limit in self._offline.values() if limit is not None]
        if self.broker_epoch == NOT_REGISTERED:
            limits.append(self._registration_limit)
        try:
            async with asyncio.timeout_at(min([due, *limits])):
                await self._at_once.wait()
        except TimeoutError:
            self._check_deadlines()

    @property
    def _registration_limit(self) -> float:
        return self._started_at + self._config.registration_timeout_ms / 1000

    def _check_deadlines(self) -> None:
        """End the broker if it could not register, or could not report a failed directory."""
        if self.life is BrokerLife.SHUTTING_DOWN:
            return
        now = asyncio.get_running_loop().time()
        if self.broker_epoch == NOT_REGISTERED and now >= self._registration_limit:
            self._fail(
                "Shutting down because we were unable to register with the controller quorum within"
                f" {self._config.registration_timeout_ms} ms"
                " (initial.broker.registration.timeout.ms)."
            )
            return
        for directory, limit in self._offline.items():
            if limit is not None and now >= limit:
                self._fail(
                    "Shutting down because the failure of log directory"
                    f" {uuid_to_string(directory)} could not be reported to the controllers within"
                    f" {self._directory_failure_timeout_ms} ms (log.dir.failure.timeout.ms)."
                )
                return

    async def _register(self) -> None:
        interval_ms = self._config.heartbeat_interval_ms
        response = await self._channel.request(
            registration_request(self._registration), BrokerRegistrationResponse, interval_ms
        )
        self._on_answer()
        if response.error_code:
            await self._on_refused_registration(refusal(response.error_code))
            return
        self.broker_epoch = response.broker_epoch
        self._is_registered = True
        self._refusal = None
        _log.info(
            "Successfully registered broker %d with broker epoch %d",
            self._registration.broker_id,
            self.broker_epoch,
        )
        self._at_once.set()

    async def _on_refused_registration(self, error: KafkaError) -> None:
        broker_id = self._registration.broker_id
        features, interval_ms = self._registration.features, self._config.heartbeat_interval_ms
        reason = await reason_of(error.code, self._channel, features, interval_ms)
        if self.broker_epoch == NOT_REGISTERED and error.code in FATAL:
            self._fail(f"Broker {broker_id} cannot register: {reason} ({error.code.name}).")
            return
        if error.code is self._refusal:
            return
        self._refusal = error.code
        _log.info(
            "Unable to register broker %d because the controller returned error %s: %s",
            broker_id,
            error.code.name,
            reason,
        )

    async def _send_heartbeat(self) -> None:
        """Send a heartbeat and follow its answer. Raises KafkaError."""
        reported = list(self._offline)
        wants_shutdown = self.life is BrokerLife.PENDING_CONTROLLED_SHUTDOWN
        response = await self._channel.request(
            BrokerHeartbeatRequest(
                broker_id=self._registration.broker_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._metadata_offset(),
                want_fence=not self._is_ready,
                want_shut_down=wants_shutdown,
                offline_log_dirs=reported,
            ),
            BrokerHeartbeatResponse,
            self._config.heartbeat_interval_ms,
        )
        self._on_answer()
        if response.error_code:
            self._on_refused_heartbeat(refusal(response.error_code))
            return
        for directory in reported:
            self._offline[directory] = None
        if wants_shutdown:
            self._follow_shutdown(response)
        else:
            self._follow(response)

    def _on_refused_heartbeat(self, error: KafkaError) -> None:
        _log.warning(
            "Broker %d sent a heartbeat request but received error %s.",
            self._registration.broker_id,
            error.code.name,
        )
        if error.code is ErrorCode.STALE_BROKER_EPOCH:
            self._is_registered = False

    def _follow(self, response: BrokerHeartbeatResponse) -> None:
        """Change the state as a heartbeat's answer says."""
        if self.life is BrokerLife.STARTING and response.is_caught_up:
            _log.info("The broker has caught up. Transitioning from STARTING to RECOVERY.")
            self._move(LifeEvent.CAUGHT_UP)
            self.caught_up.set()
            if self._is_ready:
                self._at_once.set()
        elif self.life is BrokerLife.RECOVERY and not response.is_fenced:
            _log.info("The broker has been unfenced. Transitioning from RECOVERY to RUNNING.")
            self._move(LifeEvent.UNFENCED)
            self.unfenced.set()

    def _follow_shutdown(self, response: BrokerHeartbeatResponse) -> None:
        self._shutdown_polls += 1
        if self.life is not BrokerLife.PENDING_CONTROLLED_SHUTDOWN:
            return
        if response.should_shut_down:
            _log.info("The controller has asked us to exit controlled shutdown.")
            self._move(LifeEvent.MAY_STOP)
        else:
            _log.info(
                "The broker is in PENDING_CONTROLLED_SHUTDOWN state, still waiting for the active"
                " controller."
            )

    def _on_answer(self) -> None:
        self._last_answer = asyncio.get_running_loop().time()
        if self._was_cut_off:
            self._was_cut_off = False
            _log.info("The active controller answers this broker again.")

    async def _on_failure(self, error: KafkaError) -> None:
        """Log a request without an answer: once, when the broker counts as cut off."""
        if self.broker_epoch == NOT_REGISTERED and error.code is ErrorCode.UNSUPPORTED_VERSION:
            await self._on_refused_registration(error)
        elif self.is_cut_off and not self._was_cut_off:
            self._was_cut_off = True
            own_id, reason = self._registration.broker_id, error.message or error.code.name
            if self.unfenced.is_set():
                _log.warning(
                    "Broker %d is cut off from the controller quorum and goes on serving: %s",
                    own_id,
                    reason,
                )
            else:
                _log.warning("Broker %d is not registered yet: %s", own_id, reason)


def registration_request(data: BrokerRegistrationData) -> BrokerRegistrationRequest:
    """A registration as it is sent (`BrokerRegistrationRequest`)."""
    return BrokerRegistrationRequest(
        broker_id=data.broker_id,
        cluster_id=data.cluster_id,
        incarnation_id=data.incarnation_id,
        listeners=sent_listeners(data.endpoints),
        features=sent_features(data.features),
        rack=data.rack,
        is_migrating_zk_broker=data.is_migrating_zk_broker,
        log_dirs=list(data.directories),
        previous_broker_epoch=data.previous_broker_epoch,
    )
