"""Loads, verifies and saves the metadata snapshots, one for each metadata partition.

    new partition --> load --> verify against the first record read --> continue from there
                        \\--> missing or unusable: read from the beginning

A snapshot is used only after the event that it ends with has been read from the topic. Nothing
here fails: a bad snapshot only costs a log line and reading the topic from its beginning.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from ...clients.record.checksum import crc32c
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import RemoteLog
from ..blocking_pool import BlockingPool
from .metadata_events import METADATA_TOPIC
from .metadata_snapshot import BadSnapshotError, Snapshot, SnapshotFiles, TopicIdentity

_log = logging.getLogger(__name__)


class SnapshotKeeper:
    """The snapshots of one reader of the topic."""

    def __init__(self, files: SnapshotFiles, pool: BlockingPool, events_each: int = 10_000) -> None:
        self._files = files
        self._pool = pool
        self._events_each = events_each
        self._unverified: dict[int, Snapshot] = {}
        self._unsaved: Counter[int] = Counter()
        self._last_crcs: dict[int, int] = {}
        self._members: dict[int, set[TopicIdPartition]] = {}
        """By metadata partition, the user partitions that have events in it."""

    @property
    def unverified(self) -> Iterable[int]:
        """Metadata partitions to be read from the last event of their snapshot."""
        return self._unverified.keys()

    async def load(self, identity: TopicIdentity, number: int, end_offset: int) -> int | None:
        """The offset to read first, whose record `verified` checks; None for the beginning."""
        try:
            snapshot = await self._pool.run(partial(self._files.load, identity, number))
        except (BadSnapshotError, OSError) as error:
            await self._drop(number, str(error))
            return None
        if snapshot is None:
            return None
        if snapshot.next_offset > end_offset:
            await self._drop(number, "the topic is shorter than it was")
            return None
        self._unverified[number] = snapshot
        return snapshot.next_offset - 1

    async def verified(self, number: int, offset: int, value: bytes) -> Snapshot | None:
        """The snapshot, if the first record read matches its last event; else None."""
        snapshot = self._unverified.pop(number)
        if offset == snapshot.next_offset - 1 and crc32c(value) == snapshot.last_event_crc:
            self._last_crcs[number] = snapshot.last_event_crc
            self._members[number] = {partition for partition, _ in snapshot.logs}
            return snapshot
        await self._drop(number, "the topic does not hold the event that it ends with")
        return None

    async def give_up(self, number: int) -> None:
        """Drop a snapshot: the record that would verify it is no longer in the topic."""
        del self._unverified[number]
        await self._drop(number, "the topic begins after the event that it ends with")

    def applied(self, number: int, value: bytes, partition: TopicIdPartition | None) -> None:
        """Count a record that was read; `partition` is None for one that was skipped."""
        self._unsaved[number] += 1
        self._last_crcs[number] = crc32c(value)
        if partition is not None:
            self._members.setdefault(number, set()).add(partition)

    def forget(self, numbers: Iterable[int]) -> None:
        """These metadata partitions are read no longer; their snapshots stay."""
        for number in numbers:
            self._unverified.pop(number, None)
            self._unsaved.pop(number, None)
            self._last_crcs.pop(number, None)
            self._members.pop(number, None)

    async def save(
        self,
        identity: TopicIdentity,
        positions: dict[int, int],
        remote_log: Callable[[TopicIdPartition], RemoteLog],
        *,
        all_changed: bool,
    ) -> None:
        """Save each snapshot with many unsaved events; with `all_changed`, each with any."""
        least = 1 if all_changed else self._events_each
        for number in [each for each, events in self._unsaved.items() if events >= least]:
            members = self._members.get(number, ())
            snapshot = Snapshot(
                identity,
                number,
                positions[number],
                self._last_crcs[number],
                tuple((member, remote_log(member).image()) for member in sorted(members)),
            )
            del self._unsaved[number]
            try:
                await self._pool.run(partial(self._files.save, snapshot))
            except OSError as error:
                _log.warning(
                    "Could not write the snapshot of %s-%d: %s. The next start reads more of "
                    "the partition.",
                    METADATA_TOPIC,
                    number,
                    error,
                )

    async def _drop(self, number: int, reason: str) -> None:
        _log.warning(
            "Discarding the snapshot of %s-%d and reading the partition from its beginning, "
            "because %s",
            METADATA_TOPIC,
            number,
            reason,
        )
        try:
            await self._pool.run(partial(self._files.remove, number))
        except OSError as error:
            # It will be replaced or dropped again.
            _log.debug("The dropped snapshot cannot be removed: %s", error)
