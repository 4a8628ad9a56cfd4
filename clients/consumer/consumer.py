"""The consumer client (`KafkaConsumer` in Kafka).

Partitions are either assigned manually (`assign`), or the consumer subscribes to topics and its
group assigns partitions (`subscribe`). `poll` joins the group, finds positions and waits for
records; what is not done at its timeout continues in the background, where fetches and heartbeats
run too. The position is the offset of the next record that `poll` will return.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, TypedDict, Unpack

from ..errors import ErrorCode, KafkaError
from ..network.coordinator_lookup import GroupCoordinatorClient
from ..network.metadata import Metadata
from ..network.network import NetworkClient, NetworkConfig
from ..network.offset_lookup import OffsetAndTimestamp, OffsetLookup
from ..offset_names import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ..runtime.backoff import Backoff
from ..runtime.environment import Environment, SystemEnvironment
from ..runtime.task_owner import TaskOwner
from ..topic_partition import TopicPartition
from .committed_offsets import CommittedOffsets
from .completed_fetch import ConsumerRecord
from .fetcher import FetchConfig, Fetcher, PartitionPosition
from .group import GroupConfig, GroupMember

OffsetReset = Literal["earliest", "latest", "none"]

_TASKS_MAX = 1024
_RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
_LEAVE_TIMEOUT_SECONDS = 5.0


class ConsumerOptions(TypedDict, total=False):
    """The keyword arguments of `Consumer`, described in `ConsumerConfig`."""

    client_id: str
    group_id: str | None
    group: GroupConfig | None
    auto_offset_reset: OffsetReset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    max_poll_records: int
    default_api_timeout_ms: int
    request_timeout_ms: int
    metadata_max_age_ms: int
    fetch: FetchConfig
    network: NetworkConfig | None
    environment: Environment | None


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """A consumer's settings under Kafka's names. Offsets are committed on request only, unless
    `enable_auto_commit` is set; `group` replaces `group_id` and has more settings.
    """

    client_id: str = "tierlog-consumer"
    group_id: str | None = None
    group: GroupConfig | None = None
    auto_offset_reset: OffsetReset = "latest"
    enable_auto_commit: bool = False
    auto_commit_interval_ms: int = 5_000
    max_poll_records: int = 500
    default_api_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    metadata_max_age_ms: int = 300_000
    fetch: FetchConfig = field(default_factory=FetchConfig)
    network: NetworkConfig | None = None
    environment: Environment | None = None


@dataclass(slots=True)
class _Group:
    """The group state of a consumer with a group id."""

    member: GroupMember
    offsets: CommittedOffsets
    config: GroupConfig
    commit_at: float = 0.0


class Consumer:
    """Reads records. Use as an async context manager, or `start` and `stop` it."""

    def __init__(self, bootstrap: str | Sequence[str], **options: Unpack[ConsumerOptions]) -> None:
        config = self._config = ConsumerConfig(**options)
        environment = config.environment or SystemEnvironment()
        self._network = NetworkClient(
            bootstrap,
            environment,
            config.network
            or NetworkConfig(
                client_id=config.client_id, request_timeout_ms=config.request_timeout_ms
            ),
        )
        self._metadata = Metadata(self._network, environment, max_age_ms=config.metadata_max_age_ms)
        self._fetcher = Fetcher(self._network, self._metadata, config.fetch, environment.random)
        self._lookup = OffsetLookup(self._network, self._metadata, environment)
        self._group = self._new_group(environment)
        self._subscription: frozenset[str] = frozenset()
        self._tasks = TaskOwner(_TASKS_MAX)
        self._preparing: asyncio.Task[KafkaError | None] | None = None
        self._backoff = Backoff(100, 1000)
        self._random = environment.random
        self._failures = 0
        self._trouble: KafkaError | None = None
        self._is_stopped = False

    def _new_group(self, environment: Environment) -> _Group | None:
        config = self._config
        group = config.group or (GroupConfig(config.group_id) if config.group_id else None)
        if group is None:
            return None
        coordinator = GroupCoordinatorClient(group.group_id, self._network, environment)
        return _Group(
            GroupMember(group, coordinator, self._metadata),
            CommittedOffsets(group.group_id, coordinator, config.default_api_timeout_ms),
            group,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start; connections are opened by the first poll."""

    async def stop(self) -> None:
        """Auto-commit if enabled, leave the group, and close the connections.

        A broker that does not answer delays this by a few seconds at most.
        """
        if self._is_stopped:
            return
        self._is_stopped = True
        try:
            if self._group is not None and self._subscription:
                async with asyncio.timeout(_LEAVE_TIMEOUT_SECONDS):
                    await self._auto_commit(self._group)
                    await self._group.member.leave()
        except (TimeoutError, KafkaError) as error:
            if not isinstance(error, TimeoutError) and not error.is_retriable:
                raise
        finally:
            await self._network.close()
            await self._tasks.stop()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Assign these partitions manually; replaces any earlier assignment or subscription."""
        self._subscription = frozenset()
        self._fetcher.assign(partitions)

    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribe to these topics as a member of the group."""
        if self._group is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "A subscription needs a group id.")
        if not self._subscription:
            self._tasks.start(self._group.member.heartbeats(), "heartbeats")
        self._subscription = frozenset(topics)
        self._group.member.must_join = True
        self._fetcher.assign(())

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are currently assigned."""
        return list(self._fetcher.positions)

    @property
    def generation_id(self) -> int | None:
        """The generation that `assignment` belongs to; None without a group or before joining."""
        if self._group is None or self._group.member.must_join:
            return None
        return self._group.member.generation.generation_id

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from this offset. Raises `KafkaError` for a partition that is not assigned."""
        self._position(partition).find(offset)

    def seek_to_beginning(self, partitions: Collection[TopicPartition]) -> None:
        """Continue from the log start offsets, which the next poll looks up."""
        for partition in partitions:
            self._position(partition).reset_to = EARLIEST_TIMESTAMP

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`."""
        for partition in partitions:
            self._position(partition).is_paused = True

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._position(partition).is_paused = False

    def troubles(self) -> list[KafkaError]:
        """What keeps this consumer from reading now; it goes on trying, so that it may pass."""
        joining = None if self._group is None else self._group.member.trouble
        before = [each for each in (joining, self._trouble) if each is not None]
        return before + self._fetcher.troubles()

    def high_watermark(self, partition: TopicPartition) -> int:
        """The high watermark in the last fetch response; -1 before the first."""
        return self._position(partition).high_watermark

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record, looked up if unknown. Raises `KafkaError`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._config.default_api_timeout_ms / 1000
        while (position := self._position(partition)).is_sought:
            await self._is_prepared(deadline)
            if loop.time() >= deadline:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, f"The position in {partition} was not found."
                )
        assert position.offset is not None
        return position.offset

    async def poll(self, timeout_ms: int = 0) -> list[ConsumerRecord]:
        """Up to `max_poll_records` records, as soon as there are any; none after the timeout.

        Raises a non-retriable `KafkaError`, such as OFFSET_OUT_OF_RANGE without a reset policy.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            self._fetcher.changed.clear()
            retry_at: float | None = None
            if await self._is_prepared(deadline):
                records = self._fetcher.take(self._config.max_poll_records)
                # Fetch the next records now, while the caller processes these.
                retry_at = self._fetcher.send_fetches(self._tasks)
                if records:
                    return records
            if loop.time() >= deadline:
                return []
            await self._wait_for_change(min(deadline, retry_at or deadline))

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit these offsets, by default the positions, for the group. Raises `KafkaError`."""
        group = self._require_group()
        if offsets is None:
            offsets = {
                partition: position.offset
                for partition, position in self._fetcher.positions.items()
                if position.offset is not None
            }
        if offsets:
            generation = group.member.generation
            await group.offsets.commit(
                offsets,
                generation_id=generation.generation_id,
                member_id=generation.member_id,
                group_instance_id=group.config.group_instance_id if self._subscription else None,
            )

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets; partitions without one are left out."""
        return await self._require_group().offsets.committed(partitions)

    async def beginning_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The log start offsets. Raises `KafkaError`."""
        return await self._named_offsets(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The end offsets: high watermarks, or last stable offsets under read_committed."""
        return await self._named_offsets(partitions, LATEST_TIMESTAMP)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The offset of the first record at or after each timestamp, which is in milliseconds.

        Raises `KafkaError`.
        """
        return await self._lookup.look_up(
            timestamps,
            isolation_level=self._config.fetch.isolation_level,
            timeout_ms=self._config.default_api_timeout_ms,
        )

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions. Raises `KafkaError` if the topic is not found in time."""
        count = await self._metadata.partition_count(topic, self._config.default_api_timeout_ms)
        return [TopicPartition(topic, number) for number in range(count)]

    async def _named_offsets(
        self, partitions: Collection[TopicPartition], name: int
    ) -> dict[TopicPartition, int]:
        offsets = await self.offsets_for_times(dict.fromkeys(partitions, name))
        return {partition: place.offset for partition, place in offsets.items()}

    def _position(self, partition: TopicPartition) -> PartitionPosition:
        try:
            return self._fetcher.positions[partition]
        except KeyError:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is not assigned."
            ) from None

    def _require_group(self) -> _Group:
        if self._group is None:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "Committed offsets need a group id.")
        return self._group

    async def _is_prepared(self, deadline: float) -> bool:
        """Join the group and find positions if needed; returns whether all is done by the deadline.

        The work continues after a poll has timed out, since a rebalance may outlast many polls.
        Raises a non-retriable `KafkaError` of that work.
        """
        preparing = self._preparing
        if preparing is None:
            if not self._needs_preparation():
                return True
            preparing = self._tasks.start(self._prepare(), "consumer preparation")
            self._preparing = preparing
        remaining = deadline - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait({preparing}, timeout=max(remaining, 0))
        if not done:
            return False
        if self._preparing is preparing:
            self._preparing = None
        failure = preparing.result()
        if failure is not None:
            raise failure
        return not self._needs_preparation()

    def _needs_preparation(self) -> bool:
        group = self._group if self._subscription else None
        return (
            (group is not None and (group.member.must_join or self._is_commit_due(group)))
            or (self._metadata.is_stale and bool(self._fetcher.positions))
            or any(position.is_sought for position in self._fetcher.positions.values())
        )

    async def _prepare(self) -> KafkaError | None:
        """Join the group if needed and find the positions; returns a non-retriable error."""
        try:
            if self._group is not None and self._subscription:
                await self._take_part(self._group)
            await self._find_positions()
        except KafkaError as error:
            if not error.is_retriable:
                return error
            self._failures += 1
            self._trouble = error
            await asyncio.sleep(self._backoff.delay_seconds(self._failures, self._random))
        else:
            self._failures = 0
            self._trouble = None
        return None

    async def _take_part(self, group: _Group) -> None:
        """Join the group if needed; auto-commit, if enabled, when it is due and before joining."""
        if self._is_commit_due(group) or group.member.must_join:
            await self._auto_commit(group)
        if not group.member.must_join:
            return
        subscription = self._subscription
        await self._metadata.ensure(subscription)
        partitions = await group.member.join(subscription)
        # Partitions that stay keep their positions; new ones start at their committed offsets.
        if subscription == self._subscription:
            self._fetcher.assign(partitions)

    def _is_commit_due(self, group: _Group) -> bool:
        now = asyncio.get_running_loop().time()
        return self._config.enable_auto_commit and now >= group.commit_at

    async def _auto_commit(self, group: _Group) -> None:
        if not self._config.enable_auto_commit or group.member.generation.generation_id < 0:
            return
        now = asyncio.get_running_loop().time()
        group.commit_at = now + self._config.auto_commit_interval_ms / 1000
        try:
            await self.commit()
        except KafkaError as error:
            # Another member owns the partitions by now, and has its own position.
            if error.code not in _COMMIT_CAME_TOO_LATE:
                raise

    async def _find_positions(self) -> None:
        """Find missing positions: by a seek, from committed offsets, or by `auto_offset_reset`."""
        positions = self._fetcher.positions
        unknown = [tp for tp, position in positions.items() if position.is_sought]
        if self._metadata.is_stale or unknown:
            await self._metadata.ensure({partition.topic for partition in positions})
        fresh = [tp for tp in unknown if positions[tp].is_fresh]
        if self._group is not None and fresh:
            for partition, offset in (await self._group.offsets.committed(fresh)).items():
                if partition in self._fetcher.positions:
                    positions[partition].find(offset)
        timestamps = {
            partition: self._reset_timestamp(partition, positions[partition])
            for partition in unknown
            if positions[partition].is_sought
        }
        if timestamps:
            for partition, place in (await self.offsets_for_times(timestamps)).items():
                positions[partition].find(place.offset)

    def _reset_timestamp(self, partition: TopicPartition, position: PartitionPosition) -> int:
        if position.reset_to is not None:
            return position.reset_to
        if self._config.auto_offset_reset == "none":
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition} has no valid offset to continue from."
            )
        return _RESET_TIMESTAMPS[self._config.auto_offset_reset]

    async def _wait_for_change(self, until: float) -> None:
        """Wait for a response, the end of a back-off, or the next check for a rebalance."""
        look_around = asyncio.get_running_loop().time() + _LOOK_AROUND_SECONDS
        try:
            async with asyncio.timeout_at(min(until, look_around)):
                await self._fetcher.changed.wait()
        except TimeoutError:
            return


_LOOK_AROUND_SECONDS = 0.2
"""How long a poll waits for records before it checks whether a rebalance began."""

_COMMIT_CAME_TOO_LATE = frozenset(
    (
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    )
)
