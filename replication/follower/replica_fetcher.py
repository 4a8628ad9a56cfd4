"""Follows the partitions of one leader over one connection (Kafka's `ReplicaFetcherThread`).

    what a partition asks before it can fetch (epochs, offsets, the tier) -> one Fetch of the
    session -> each partition's response to its state machine -> again; idle until one is due

One request is in flight at a time, so at most one response is in memory: up to
`replica.fetch.response.max.bytes`, or one larger batch. A large response is handled in parts, and
the event loop serves others in between.

Rules:

- the leader's address is looked up for each request: it may change while the broker is down;
- a lost request or response delays its partitions by `replica.fetch.backoff.ms`;
- an unexpected error in one partition's records stops that partition only;
- what a partition needs from the tier is read beside the fetches (`tier_reads.py`);
- while the followers' quota is exceeded, throttled partitions that are not in sync are not fetched
  (KIP-73, `RemoteLeaderEndPoint.shouldFollowerThrottle`).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...clients.errors import ErrorCode, KafkaError
from ...clients.network.network import Address, NetworkClient, NetworkConfig
from ...clients.network.security import UNSECURED, ConnectionSecurity
from ...clients.protocol.messages.fetch import FetchResponse, PartitionData
from ...clients.protocol.messages.list_offsets import ListOffsetsResponse
from ...clients.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from ...clients.protocol.primitives import size_of
from ...clients.protocol.schema import Message
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.topic_partition import TopicIdPartition, TopicPartition
from ...storage.log.unified_log import UnifiedLog
from .fetch_state import FetchState, FollowedPartition
from .followed_partitions import Asked, FollowedPartitions
from .follower_asks import EpochEndAsk, FetchAsk, FollowerOptions, OffsetAsk
from .leader_requests import (
    FetchLimits,
    Follower,
    epoch_ends,
    epoch_ends_request,
    error_of,
    fetch_request,
    fetched_of,
    fetched_partitions,
    list_offsets_request,
    listed_offsets,
)
from .replica_fetch_session import (
    ReplicaFetchSession,
    ReplicaId,
    SessionReaction,
    replica_id_of,
)
from .tier_reads import FetchAux, TierReads, TierReadTools

if TYPE_CHECKING:
    from ..throttled_replicas import ThrottledReplicas

_log = logging.getLogger(__name__)

_LOOP = "replica fetcher"
_PARTITION = "replication"
_SLICE_BYTES = 1 << 20
"""After appending this much, the event loop serves others."""
_SLICE_PARTITIONS = 128
"""Or after handling the answers of so many."""
_MISSING = "The response lacks the partition."

R = TypeVar("R", bound=Message)


class ReplicaFetcherConfig(NamedTuple):
    """The settings of a broker's fetchers. Times in milliseconds."""

    node_id: int
    fetchers_per_leader: int = 1
    """num.replica.fetchers"""
    limits: FetchLimits = FetchLimits()
    backoff_ms: int = 1_000
    """replica.fetch.backoff.ms"""
    socket_timeout_ms: int = 30_000
    """replica.socket.timeout.ms"""
    fetches_last_tiered: bool = False
    """follower.fetch.last.tiered.offset.enable (KIP-1023)"""
    security: ConnectionSecurity = UNSECURED
    """What connections with TLS are opened with; None for plain text."""

    @property
    def follower_options(self) -> FollowerOptions:
        """The options of the partitions that follow another broker."""
        return FollowerOptions(self.backoff_ms, self.fetches_last_tiered)


class FetcherTools(NamedTuple):
    """What all fetchers of a broker share."""

    environment: Environment
    supervisor: Supervisor
    address_of: Callable[[int], Address | None]
    """Where another broker serves brokers; None if it is not registered with such a listener."""
    broker_epoch: Callable[[], int]
    """The epoch of this broker's registration."""
    fetch_aux: FetchAux | None = None
    """Reads a log's state from the tier; None if there is no tier."""
    throttle: "ThrottledReplicas | None" = None
    """The followers' replication quota."""
    on_high_watermark: Callable[[TopicPartition], None] | None = None
    """Called after a partition's high watermark or log start has moved, or its log was cut."""
    count_bytes: Callable[[int], None] | None = None
    """Called with the bytes of the records in each response."""


class FetcherId(NamedTuple):
    """One of the fetchers from a leader."""

    leader_id: int
    number: int


class ReplicaFetcher:
    """See the top of this file. `run` is its only task."""

    def __init__(
        self, fetcher_id: FetcherId, config: ReplicaFetcherConfig, tools: FetcherTools
    ) -> None:
        self.fetcher_id = fetcher_id
        self._config = config
        self._tools = tools
        self.followed = FollowedPartitions(config.follower_options)
        self._session = ReplicaFetchSession()
        self._wake = asyncio.Event()
        tier_tools = TierReadTools(tools.fetch_aux, self._contain, self._on_tier_read, self._now_ms)
        self._tier_reads = TierReads(self, tier_tools)
        self._is_unreachable = False
        self._prefix = (
            f"[ReplicaFetcher replicaId={config.node_id}, leaderId={fetcher_id.leader_id},"
            f" fetcherId={fetcher_id.number}]"
        )
        self._network = NetworkClient(
            [],
            tools.environment,
            NetworkConfig(
                client_id=f"broker-{config.node_id}-fetcher-{fetcher_id.number}",
                request_timeout_ms=config.socket_timeout_ms,
                socket_connection_setup_timeout_ms=config.socket_timeout_ms,
                reconnect_backoff_max_ms=max(config.backoff_ms, 50),
                max_in_flight_requests_per_connection=1,
                security=config.security,
            ),
        )

    def __str__(self) -> str:
        return self._prefix

    def follow(
        self, name: TopicIdPartition, log: UnifiedLog, leader_epoch: int
    ) -> FollowedPartition:
        """Follow the leader of this epoch with `log`."""
        before = self.followed.get(name)
        partition = self.followed.follow(name, log, leader_epoch)
        if before is not None and partition is not before:
            # Another log, which does not have the offsets that the leader's session has noted.
            self._session.on_unused(replica_id_of(name))
        self._wake.set()
        return partition

    def unfollow(self, names: Collection[TopicIdPartition]) -> None:
        """Follow these partitions no longer. A response under way changes none of their logs."""
        self.followed.unfollow(names)
        self._session.drop(names)
        self._wake.set()

    async def run(self) -> None:
        """Fetch until the task is cancelled."""
        supervisor = self._tools.supervisor
        try:
            while True:
                with supervisor.attempt(_LOOP, self) as attempt:
                    await self._round()
                if attempt.has_failed:
                    self._lose("The fetcher failed with an internal error.")
                    await asyncio.sleep(supervisor.pause_seconds(_LOOP, self))
        finally:
            supervisor.forget(_LOOP, self)
            await self._tier_reads.stop()
            await self._network.close()

    async def _round(self) -> None:
        self._wake.clear()
        await self._ask_positions()
        if self._session.outstanding:
            await self._fetch()
        else:
            await self._wait_until_due()

    def _now_ms(self) -> int:
        """The event loop's time: a clock that is set must not stop replication."""
        return int(asyncio.get_running_loop().time() * 1_000)

    async def _wait_until_due(self) -> None:
        due_ms = self.followed.next_due_ms()
        wait_ms = None if due_ms is None else max(due_ms - self._now_ms(), 1)
        try:
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1_000):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _request(self, message: Message, response: type[R]) -> R:
        """Send a request to the leader. Raises KafkaError."""
        leader_id = self.fetcher_id.leader_id
        address = self._tools.address_of(leader_id)
        if address is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"Broker {leader_id} is not registered with a listener for brokers.",
            )
        self._network.add_node(leader_id, address)
        return await self._network.request(leader_id, message, response)

    def _lose(self, reason: str) -> None:
        """Retry all that is outstanding after the back-off; the next fetch is a full one."""
        self._session.lose()
        self.followed.lose_all(reason, self._now_ms())

    def _on_error(self, error: KafkaError) -> None:
        if not self._is_unreachable:
            self._is_unreachable = True
            _log.warning("%s Error in fetch from the leader: %s", self, error.message)
        self._lose(error.message)

    def _on_answer(self) -> None:
        if self._is_unreachable:
            self._is_unreachable = False
            _log.info("%s The leader answers again", self)

    async def _ask_positions(self) -> None:
        """Give all that are ready to the session; ask what others need before they can fetch.

        Ends: a partition asks only a few times in a row before it fetches, or waits after an error.
        """
        while True:
            epochs: list[Asked] = []
            offsets: list[Asked] = []
            for part in self.followed.asks(self._now_ms(), self._pause()):
                if isinstance(part.ask, FetchAsk):
                    self._session.add(part)
                elif isinstance(part.ask, EpochEndAsk):
                    epochs.append(part)
                elif isinstance(part.ask, OffsetAsk):
                    offsets.append(part)
                else:
                    self._tier_reads.start(part)
            if not (epochs or offsets):
                return
            try:
                await self._ask_epochs(epochs)
                await self._ask_offsets(offsets)
            except KafkaError as error:
                self._on_error(error)
                return

    def _pause(self) -> Callable[[FollowedPartition], int] | None:
        """Which partitions the followers' quota holds back, and for how long; None: none."""
        throttle = self._tools.throttle
        if throttle is None:
            return None
        wait_s = throttle.quota.wait_seconds(asyncio.get_running_loop().time())
        if wait_s <= 0:
            return None
        # No longer than the back-off: the limit or the list may change meanwhile.
        wait_ms = min(ceil(wait_s * 1_000), max(self._config.backoff_ms, 1))

        def pause_ms(partition: FollowedPartition) -> int:
            name = partition.topic_id_partition.topic_partition
            if partition.is_in_sync or not partition.fetches_next:
                return 0
            return wait_ms if throttle.includes(name, partition.log.config) else 0

        return pause_ms

    def _follower(self) -> Follower:
        return Follower(self._config.node_id, self._tools.broker_epoch())

    async def _ask_epochs(self, asks: Sequence[Asked]) -> None:
        if not asks:
            return
        request = epoch_ends_request(self._follower(), asks)
        response = await self._request(request, OffsetForLeaderEpochResponse)
        self._on_answer()
        answers = epoch_ends(response)
        for number, (partition, ask) in enumerate(asks, 1):
            assert isinstance(ask, EpochEndAsk)
            answer = answers.get(partition.topic_id_partition.topic_partition)
            with self._contain(partition):
                if answer is None:
                    partition.failed(ask, _MISSING, self._now_ms())
                else:
                    partition.epoch_end_found(ask, answer.error, answer.epoch_end, self._now_ms())
            self._log_failure(partition)
            if not number % _SLICE_PARTITIONS:
                await asyncio.sleep(0)

    async def _ask_offsets(self, asks: Sequence[Asked]) -> None:
        if not asks:
            return
        timeout_ms = self._config.socket_timeout_ms
        request = list_offsets_request(self._follower(), asks, timeout_ms)
        response = await self._request(request, ListOffsetsResponse)
        self._on_answer()
        answers = listed_offsets(response)
        for number, (partition, ask) in enumerate(asks, 1):
            assert isinstance(ask, OffsetAsk)
            answer = answers.get(partition.topic_id_partition.topic_partition)
            with self._contain(partition):
                if answer is None:
                    partition.failed(ask, _MISSING, self._now_ms())
                else:
                    offset = answer.offset_and_epoch
                    partition.offset_found(ask, answer.error, offset, self._now_ms())
            self._log_failure(partition)
            if not number % _SLICE_PARTITIONS:
                await asyncio.sleep(0)

    def _on_tier_read(self, partition: FollowedPartition) -> None:
        self._log_failure(partition)
        self._wake.set()

    async def _fetch(self) -> None:
        limits = self._config.limits
        request = fetch_request(self._follower(), limits, self._session.next_request())
        try:
            response = await self._request(request, FetchResponse)
        except KafkaError as lost:
            self._on_error(lost)
            return
        partitions = fetched_partitions(response)
        error = error_of(response.error_code)
        reaction, problem = self._session.on_response(error, response.session_id, list(partitions))
        if reaction is SessionReaction.ACCEPTED:
            self._on_answer()
            await self._handle(partitions.items())
            return
        _log.info("%s Fetch session: %s", self, problem)
        if reaction is SessionReaction.REFUSED:
            self._on_error(KafkaError(error, problem))

    async def _handle(self, partitions: Iterable[tuple[ReplicaId, PartitionData]]) -> None:
        handled = 0
        for key, answer in partitions:
            # None: the partition is no longer followed from here.
            part = self._session.take(key)
            if part is None:
                continue
            partition, ask = part
            assert isinstance(ask, FetchAsk)
            is_used = False
            with self._contain(partition):
                wall_ms = self._tools.environment.wall_clock_ms()
                fetched = fetched_of(answer)
                now_ms = self._now_ms()
                is_used = self.followed.fetched(partition, ask, fetched, now_ms, wall_ms)
            if not is_used and not answer.error_code:
                self._session.on_unused(key)
            self._log_failure(partition)
            nbytes = 0 if answer.records is None else size_of(answer.records)
            self._count(partition, nbytes)
            handled += max(nbytes, _SLICE_BYTES // _SLICE_PARTITIONS)
            if handled >= _SLICE_BYTES:
                handled = 0
                await asyncio.sleep(0)

    def _count(self, partition: FollowedPartition, nbytes: int) -> None:
        """Count the records of a response, and against the followers' quota."""
        tools = self._tools
        if nbytes and tools.count_bytes is not None:
            tools.count_bytes(nbytes)
        if nbytes and tools.throttle is not None:
            name, now = partition.topic_id_partition.topic_partition, asyncio.get_running_loop()
            tools.throttle.record(name, partition.log.config, nbytes, now.time())

    @contextmanager
    def _contain(self, partition: FollowedPartition) -> Generator[None, None, None]:
        """Contain an unexpected error, so that it stops this partition only.

        Who waits for the log is notified if what consumers may read of it has changed.
        """
        name, bounds = partition.topic_id_partition.topic_partition, partition.log.bounds
        before = bounds.high_watermark, bounds.log_start, bounds.log_end
        with self._tools.supervisor.attempt(_PARTITION, name) as attempt:
            yield
        if attempt.has_failed:
            partition.break_down("An internal error.")
        high_watermark, log_start, log_end = before
        if (
            bounds.high_watermark != high_watermark
            or bounds.log_start != log_start
            or bounds.log_end < log_end
        ) and self._tools.on_high_watermark is not None:
            self._tools.on_high_watermark(name)

    def _log_failure(self, partition: FollowedPartition) -> None:
        if partition.state is FetchState.FAILED:
            name = partition.topic_id_partition.topic_partition
            _log.warning("%s Partition %s marked as failed: %s", self, name, partition.trouble)
