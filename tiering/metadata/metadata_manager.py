"""Remote log metadata, kept in the topic `__remote_log_metadata` (KIP-405's RLMM).

    publish(event) -> produced to the partition that the user partition's topic id chooses
                                     |
        every broker consumes -> flushes its own replica to disk
                                     |
                                     -> applies the events to one RemoteLog per user partition
                                     |
    publish returns when this broker's own consumer has read past the event

So each decision of a broker, such as to delete a local segment or a remote object, is based on a
state that includes its own last step and survives a power failure. An event may arrive twice,
or come from a former leader: the state machine in `RemoteLog` drops what does not fit.

One consumer reads every metadata partition that is needed here (`metadata_assignment.py`), from its
beginning, and keeps the state of all user partitions in it, assigned or not. The history of a user
partition assigned later is therefore already there (KAFKA-16105). A user partition is ready once
the consumer has reached the end offset that its metadata partition had when the leadership term
began; before that, nothing may be copied, expired or read on the basis of the metadata.

Snapshots of this state are kept on disk (`metadata_snapshot.py`); a start resumes from them, and so
does the reading of a metadata partition that was dropped and is needed again.

The first broker that needs the topic creates it. Every failure is retried forever, with backoff,
in the background; meanwhile the broker serves its local data.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ...clients.consumer.completed_fetch import UndecodableRecordsError
from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.backoff import Backoff
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import Applied, RemoteLog
from ...storage.remote.remote_segment import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from ..config import MetadataManagerConfig
from .end_offsets import EndOffsets
from .metadata_assignment import MetadataAssignment
from .metadata_events import (
    METADATA_TOPIC,
    decode_event,
    encode_event,
    event_summary,
    metadata_partition,
)
from .metadata_snapshot import Snapshot, TopicIdentity
from .skipped_events import SkippedEvents
from .snapshot_keeper import SnapshotKeeper

if TYPE_CHECKING:
    from ...clients.consumer.completed_fetch import ConsumerRecord

_log = logging.getLogger(__name__)

_LOOP = "Reading of the remote log metadata"
_POLL_MS = 500
_RETRY_MAX_MS = 10_000


class RemoteLogMetadataManager(Protocol):
    """What the rest of tiering needs of the remote log metadata."""

    def assign(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Read the metadata of user partitions that this broker now leads or follows.

        Each becomes ready once every event published before this call has been applied.
        """
        ...

    def is_ready(self, partition: TopicIdPartition) -> bool:
        """Whether all events published for a user partition before its assignment are applied."""
        ...

    def remote_log(self, partition: TopicIdPartition) -> RemoteLog:
        """The state of a user partition; it keeps changing as events arrive."""
        ...

    def remote_logs(self) -> Iterable[RemoteLog]:
        """The state of every user partition that has had an event, assigned or not."""
        ...

    def forget(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Stop requiring the metadata of partitions that left or are no longer tiered here."""
        ...

    def watch_all(self) -> None:
        """Read the metadata of every user partition, no matter which broker leads it."""
        ...

    async def publish(self, event: RemoteLogMetadata) -> None:
        """Write an event; return once it is durable and read back. Raises KafkaError.

        After an error the event may or may not have been written, now or later.
        """
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@runtime_checkable
class PartitionWatcher(Protocol):
    """Metadata that need not be read as a whole to find the deleted topics in a part of it."""

    def watch(self, numbers: Iterable[int], removing: Iterable[TopicIdPartition]) -> None:
        """Read these metadata partitions, and those of the user partitions `removing`.

        A later call replaces this one. Metadata that nothing needs any more may be dropped.
        """
        ...


class MetadataTopic(Protocol):
    """The metadata topic of a cluster, accessed through clients (`metadata_topic.py`)."""

    async def open(self) -> int:
        """Connect, create the topic if it is missing, and return its number of partitions.

        Raises KafkaError.
        """
        ...

    @property
    def identity(self) -> TopicIdentity:
        """The cluster id and topic id; available once the topic is open."""
        ...

    async def append(self, partition: int, value: bytes) -> int:
        """Write a record and return its offset. Raises KafkaError."""
        ...

    def assign(self, partitions: Collection[int]) -> None:
        """Consume exactly these partitions; new ones from their beginning."""
        ...

    def seek(self, partition: int, offset: int | None) -> None:
        """Move an assigned partition to an offset; None means its beginning."""
        ...

    async def poll(self, timeout_ms: int) -> "list[ConsumerRecord]":
        """The records that follow those of the last poll. Raises KafkaError."""
        ...

    async def make_durable(self, ends: Mapping[int, int]) -> None:
        """Return once this broker's replica of each partition is on disk up to its end offset.

        Raises KafkaError: then nothing may be decided from those records.
        """
        ...

    async def positions(self, partitions: Collection[int]) -> Mapping[int, int]:
        """The next offset to read, per partition. Raises KafkaError."""
        ...

    async def end_offsets(self, partitions: Collection[int]) -> Mapping[int, int]:
        """The log end offset of each partition. Raises KafkaError."""
        ...

    async def close(self) -> None:
        """Disconnect. Idempotent."""
        ...


class TopicBasedRemoteLogMetadataManager:
    """See the top of this file."""

    def __init__(
        self,
        config: MetadataManagerConfig,
        topic: MetadataTopic,
        environment: Environment,
        snapshots: SnapshotKeeper | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._supervisor = supervisor or Supervisor(environment.random)
        self._config = config
        self._snapshots = snapshots
        self._topic = topic
        self._environment = environment
        self._backoff = Backoff(config.initialization_retry_interval_ms, _RETRY_MAX_MS)
        self._tasks = TaskOwner(1)
        self._is_started = False
        self._assignment = MetadataAssignment()
        self._remote_logs: dict[TopicIdPartition, RemoteLog] = {}
        self._partitions = 0
        """The number of metadata partitions; 0 until the topic is open."""
        self._opened = asyncio.Event()
        self._positions: dict[int, int] = {}
        """By metadata partition, the offset after the last applied event."""
        self._ready_at: dict[int, int] = {}
        """By metadata partition, its end offset when it was assigned."""
        self._looked_up = EndOffsets(topic.end_offsets)
        self._ends: dict[int, int] = {}
        """By metadata partition, the highest end offset that must be reached."""
        self._renewed: dict[TopicIdPartition, int] = {}
        """User partitions whose term awaits the end offset that it must reach; numbered."""
        self._terms = 0
        self._ready_offsets: dict[TopicIdPartition, int] = {}
        """By user partition, the end offset of its metadata partition after its term began."""
        self._moved = asyncio.Event()
        """Set and replaced whenever a position advances."""
        self._fetched: list[ConsumerRecord] = []
        """Records that were read and not yet applied: they may not be durable yet."""
        self._status = ""
        self.skipped = SkippedEvents()
        """Records that could not be decoded or applied."""

    @property
    def status(self) -> str:
        """Why the metadata is not available, in a sentence; empty if it is."""
        return self._status

    async def start(self) -> None:
        """Allow background work; it begins when a user partition is assigned."""
        self._is_started = True
        self._begin()

    async def stop(self) -> None:
        """Stop reading; pending publications fail. Idempotent."""
        self._is_started = False
        await self._tasks.stop()
        await self._save(all_changed=True)
        await self._topic.close()

    def assign(self, partitions: Iterable[TopicIdPartition]) -> None:
        partitions = list(partitions)
        self._terms += 1
        self._renewed.update(dict.fromkeys(partitions, self._terms))
        self._assignment.add(partitions)
        self._begin()

    def is_ready(self, partition: TopicIdPartition) -> bool:
        if not self._partitions or partition in self._renewed:
            return False
        number = metadata_partition(partition, self._partitions)
        target = self._ready_offsets.get(partition, self._ready_at.get(number))
        return target is not None and self._positions.get(number, 0) >= target

    def remote_log(self, partition: TopicIdPartition) -> RemoteLog:
        remote = self._remote_logs.get(partition)
        if remote is None:
            remote = self._remote_logs[partition] = RemoteLog(partition)
        return remote

    def remote_logs(self) -> list[RemoteLog]:
        return [remote for remote in self._remote_logs.values() if not remote.is_unheard_of]

    def forget(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Stop requiring the metadata of these partitions.

        Their state is kept up to date for as long as their metadata partition is read: a
        partition that comes back needs its history (KAFKA-16105), and the removal of a deleted
        one needs its segments. Once that partition is dropped, their state is, too.
        """
        for partition in partitions:
            self._assignment.forget(partition)
            self._renewed.pop(partition, None)
            self._ready_offsets.pop(partition, None)
            remote = self._remote_logs.get(partition)
            if remote is not None and remote.is_unheard_of:
                del self._remote_logs[partition]

    def watch_all(self) -> None:
        self._assignment.watch_all()
        self._begin()

    def watch(self, numbers: Iterable[int], removing: Iterable[TopicIdPartition]) -> None:
        self._assignment.watch(numbers, removing)
        self._begin()

    async def publish(self, event: RemoteLogMetadata) -> None:
        with self._assignment.publishing(event.topic_id_partition):
            await self._publish(event)

    async def _publish(self, event: RemoteLogMetadata) -> None:
        self._begin()
        try:
            async with asyncio.timeout(self._config.consume_wait_ms / 1000):
                await self._opened.wait()
                number = metadata_partition(event.topic_id_partition, self._partitions)
                offset = await self._topic.append(number, encode_event(event))
                while self._positions.get(number, 0) <= offset:
                    await self._moved.wait()
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The event of {event.topic_id_partition} was not read back from {METADATA_TOPIC} "
                f"within {self._config.consume_wait_ms} ms. {self._status}".rstrip(),
            ) from None

    def _begin(self) -> None:
        if self._is_started and self._assignment.is_needed and not len(self._tasks):
            self._tasks.start(self._run(), "remote log metadata")

    async def _run(self) -> None:
        failures = 0
        while True:
            with self._supervisor.attempt(_LOOP):
                try:
                    if not self._opened.is_set():
                        await self._open()
                    await self._read()
                    failures = 0
                    if self._looked_up.failure is None:
                        self._on_success()
                    else:
                        self._on_failure(self._looked_up.failure)
                except KafkaError as error:
                    failures += 1
                    self._on_failure(error)
            if self._supervisor.has_failed(_LOOP):
                self._status = "Reading the remote log metadata fails with an internal error"
                await asyncio.sleep(self._supervisor.pause_seconds(_LOOP))
            elif failures:
                await asyncio.sleep(self._backoff.delay_seconds(failures, self._environment.random))

    async def _open(self) -> None:
        self._partitions = await self._topic.open()
        if self._partitions != self._config.topic_partitions:
            _log.warning(
                "%s has %d partitions, not %d as configured: using the number that the topic has",
                METADATA_TOPIC,
                self._partitions,
                self._config.topic_partitions,
            )
        self._opened.set()

    async def _read(self) -> None:
        await self._begin_partitions()
        await self._fetch()
        rewound: set[int] = set()
        done = 0
        try:
            for record in self._fetched:
                if record.partition not in rewound:
                    await self._take(record, rewound)
                done += 1
        finally:
            # An unexpected failure does not lose the remaining records.
            self._fetched = [each for each in self._fetched[done:] if each.partition not in rewound]
        await self._look_behind()
        self._moved.set()
        self._moved = asyncio.Event()
        await self._save(all_changed=False)

    async def _take(self, record: "ConsumerRecord", rewound: set[int]) -> None:
        """Apply a record, or verify a snapshot with it.

        If the snapshot is refused, its metadata partition is added to `rewound` and read again.
        """
        number = record.partition
        if self._snapshots is None or number not in self._snapshots.unverified:
            self._apply(record)
            return
        rewound.add(number)
        try:
            snapshot = await self._snapshots.verified(number, record.offset, record.value or b"")
            if snapshot is not None:
                await self._restore(snapshot)
                rewound.discard(number)
        finally:
            if number in rewound:
                self._topic.seek(number, None)

    async def _fetch(self) -> None:
        """Poll and make durable: an event must not count while a power failure could lose it."""
        if not self._fetched:
            try:
                self._fetched = await self._topic.poll(_POLL_MS)
            except UndecodableRecordsError as error:
                self._step_over(error)
        if self._fetched:
            await self._topic.make_durable(
                {record.partition: record.offset + 1 for record in self._fetched}
            )

    def _step_over(self, error: UndecodableRecordsError) -> None:
        number = error.partition.partition
        self.skipped.skip(number, error.offset, str(error.reason))
        self._topic.seek(number, error.next_offset)
        if self._snapshots is None or number not in self._snapshots.unverified:
            self._positions[number] = error.next_offset

    async def _begin_partitions(self) -> None:
        """Start reading newly needed partitions, from their snapshot or from the beginning."""
        needed = self._assignment.update(self._partitions)
        if self._ready_at.keys() - needed:
            await self._save(all_changed=True)
            # Meanwhile some may be needed again.
            needed = self._assignment.update(self._partitions)
            self._drop(self._ready_at.keys() - needed)
        terms = dict(self._renewed)
        numbers = {each: metadata_partition(each, self._partitions) for each in terms}
        new = needed - self._ready_at.keys()
        ends = await self._looked_up.of(new.union(numbers.values()))
        if self._looked_up.failure is not None and not ends and not self._ready_at:
            raise self._looked_up.failure
        self._ends.update(ends)
        await self._begin_reading({each: end for each, end in ends.items() if each in new})
        # An earlier leader may have published until a moment ago: a term must reach its end.
        for partition, term in terms.items():
            number = numbers[partition]
            # A later term may have begun meanwhile.
            if number in ends and self._renewed.get(partition) == term:
                del self._renewed[partition]
                self._ready_offsets[partition] = ends[number]

    async def _begin_reading(self, ends: Mapping[int, int]) -> None:
        if not ends:
            return
        self._topic.assign(sorted({*self._ready_at, *ends}))
        if self._snapshots is not None:
            identity = self._topic.identity
            for number in sorted(ends):
                offset = await self._snapshots.load(identity, number, ends[number])
                if offset is not None:
                    self._topic.seek(number, offset)
        self._ready_at.update(ends)

    def _drop(self, numbers: Collection[int]) -> None:
        """Stop reading metadata partitions, and forget their state: it would not stay current."""
        if self._snapshots is not None:
            self._snapshots.forget(numbers)
        for number in numbers:
            for offsets in (self._ready_at, self._ends, self._positions):
                offsets.pop(number, None)
        self._fetched = [record for record in self._fetched if record.partition not in numbers]
        self._topic.assign(sorted(self._ready_at))
        for partition in list(self._remote_logs):
            if metadata_partition(partition, self._partitions) in numbers:
                del self._remote_logs[partition]
                self._ready_offsets.pop(partition, None)

    async def _restore(self, snapshot: Snapshot) -> None:
        for partition, image in snapshot.logs:
            remote = self.remote_log(partition)
            if remote.is_unheard_of:
                remote.restore(image)
            # Yield to other tasks between two logs: there may be many.
            await asyncio.sleep(0)
        self._positions[snapshot.partition] = snapshot.next_offset

    async def _look_behind(self) -> None:
        """Advance positions that no record can advance.

        The log start may be above the last event, and the log may end with something that the
        consumer does not return: a transaction marker of another writer.
        """
        behind = [each for each, end in self._ends.items() if self._positions.get(each, 0) < end]
        if not behind:
            return
        positions = await self._topic.positions(behind)
        for number, position in positions.items():
            if self._snapshots is None or number not in self._snapshots.unverified:
                self._positions[number] = position
            elif position >= self._ready_at[number]:
                await self._snapshots.give_up(number)
                self._topic.seek(number, None)

    async def _save(self, *, all_changed: bool) -> None:
        if self._snapshots is not None and self._opened.is_set():
            await self._snapshots.save(
                self._topic.identity, self._positions, self.remote_log, all_changed=all_changed
            )

    def _apply(self, record: "ConsumerRecord") -> None:
        self._positions[record.partition] = record.offset + 1
        partition = None
        try:
            event = decode_event(record.value or b"")
            applied = _apply_event(event, self.remote_log(event.topic_id_partition))
            partition = event.topic_id_partition
            if applied is not Applied.YES:
                _log.info(
                    "Ignoring a remote log metadata event because %s: %s",
                    applied.value,
                    event_summary(event),
                )
        except KafkaError as error:
            # Another client wrote the record. Stopping here would stop tiering forever.
            self.skipped.skip(record.partition, record.offset, f"{error}.")
        except Exception as error:
            reason = "applying it failed with an internal error."
            self.skipped.skip(record.partition, record.offset, reason, error)
        if self._snapshots is not None:
            self._snapshots.applied(record.partition, record.value or b"", partition)

    def _on_success(self) -> None:
        if self._status:
            _log.info("The remote log metadata is available again")
            self._status = ""

    def _on_failure(self, error: KafkaError) -> None:
        if not self._status:
            _log.warning("The remote log metadata is not available, trying again: %s", error)
        self._status = f"The remote log metadata is not available: {error}"


def _apply_event(event: RemoteLogMetadata, remote: RemoteLog) -> Applied:
    if isinstance(event, RemoteLogSegmentMetadata):
        return remote.apply_copy_started(event)
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        return remote.apply_update(event)
    return remote.apply_partition_delete(event.state, event.broker_id)
