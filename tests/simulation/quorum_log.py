"""The metadata log of one simulated voter: what it reads, and what a power loss leaves of it.

A model, for speed: a list of batches with offset, epoch and payload, no bytes on a disk. It keeps
to the rules of `SimulatedDisk`: appended batches are durable after `flush`, a truncation may be
undone by a power loss until then, and snapshots are durable as soon as they are frozen.

Each batch carries a digest of everything before it and of itself. Two logs that agree in the digest
at an offset agree in all of their records below it: so log matching costs one comparison.
"""

import random
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.raft.voter_set import (
    NO_VOTERS,
    Address,
    KRaftVersionRange,
    Voter,
    VoterKey,
    VoterSet,
)
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch

LISTENER = "CONTROLLER"

EMPTY_DIGEST = bytes(8)


class Batch(NamedTuple):
    """Records of one epoch, and the digest of the log up to `next_offset`."""

    base_offset: int
    next_offset: int
    partition_leader_epoch: int
    payload: bytes
    digest: bytes
    is_control: bool
    voters: VoterSet = NO_VOTERS
    """Those in its Voters record, which is the last of its records; none without one."""


class Snapshot(NamedTuple):
    """What stands below `end`: the epoch of the last record, digests of the log and the state."""

    end: int
    epoch: int
    digest: bytes
    state: bytes
    voters: VoterSet = NO_VOTERS
    """The voters, where a Voters record says them."""

    @property
    def id(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end, self.epoch)

    def to_bytes(self) -> bytes:
        """The content of its file."""
        voters = voters_text(self.voters)
        digests = f"{self.digest.hex()}|{self.state.hex()}"
        return f"{self.end}|{self.epoch}|{digests}|{voters}|end".encode()


def parse_snapshot(content: bytes) -> Snapshot:
    """The snapshot in a file; AssertionError for a file that is not whole."""
    parts = content.split(b"|")
    assert len(parts) == 6, f"a snapshot is damaged: {content!r}"
    assert parts[-1] == b"end", f"a snapshot has no footer: {content!r}"
    end, epoch, digest, state, voters = (part.decode() for part in parts[:5])
    digests = bytes.fromhex(digest), bytes.fromhex(state)
    return Snapshot(int(end), int(epoch), *digests, parse_voters(voters))


def voters_text(voters: VoterSet) -> str:
    """A voter set as the content of a record or of a snapshot."""
    return ",".join(
        f"{voter.key.id}/{voter.key.directory_id.hex()}/{address.host}/{address.port}/"
        f"{voter.kraft_version.minimum}/{voter.kraft_version.maximum}"
        for voter in voters
        for address in (voter.endpoints[LISTENER],)
    )


def parse_voters(text: str) -> VoterSet:
    """The voters of such a text."""
    voters: list[Voter] = []
    for each in text.split(",") if text else ():
        number, directory, host, port, lowest, highest = each.split("/")
        key = VoterKey(int(number), Uuid(bytes.fromhex(directory)))
        endpoints = {LISTENER: Address(host, int(port))}
        voters.append(Voter(key, endpoints, KRaftVersionRange(int(lowest), int(highest))))
    return VoterSet(voters)


NOTHING = Snapshot(0, 0, EMPTY_DIGEST, EMPTY_DIGEST)


@dataclass(eq=False, slots=True)
class FlushInProgress:
    """A sync that has begun: what it makes durable, if nothing is truncated meanwhile."""

    end: int
    truncations: int


def digest_of(before: bytes, base: int, end: int, epoch: int, payload: bytes) -> bytes:
    """The digest of a log that ends with this batch."""
    content = b"%b|%d|%d|%d|%b" % (before, base, end, epoch, payload)
    return blake2b(content, digest_size=8).digest()


def fold(state: bytes, payload: bytes) -> bytes:
    """The state after one more change: it depends on every change before, and on their order."""
    return blake2b(state + payload, digest_size=8).digest()


class ModelLog:
    """See the module. It is the `RaftLogView` of a core."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.start = NOTHING
        self.snapshots: dict[OffsetAndEpoch, Snapshot] = {}
        self._voters: list[Batch] = []
        """The batches with a Voters record."""
        self._durable: list[Batch] = []
        self._common = 0
        """So many batches are the same in `batches` and in `_durable`."""
        self._flushes: list[FlushInProgress] = []
        self._truncations = 0

    @property
    def start_offset(self) -> int:
        return self.start.end

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start.end

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].partition_leader_epoch if self.batches else self.start.epoch

    @property
    def last_digest(self) -> bytes:
        """The digest of the whole log."""
        return self.batches[-1].digest if self.batches else self.start.digest

    @property
    def flushed_offset(self) -> int:
        """The end of what is durable of this log."""
        return self._durable[self._common - 1].next_offset if self._common else self.start.end

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, default=None)

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return min(self.snapshots, default=None)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """The bytes of a snapshot's file."""
        snapshot = self.snapshots.get(snapshot_id)
        return None if snapshot is None else len(snapshot.to_bytes())

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch not above this one, and where it ends; the start's if there is none."""
        after = bisect_right(self.batches, epoch, key=lambda batch: batch.partition_leader_epoch)
        if after == 0:
            return OffsetAndEpoch(self.start.end, self.start.epoch)
        last = self.batches[after - 1]
        return OffsetAndEpoch(last.next_offset, last.partition_leader_epoch)

    def digest_at(self, offset: int) -> bytes | None:
        """The digest of everything below an offset; None if it is no boundary of this log."""
        return _digest_at(self.batches, self.start, offset)

    def durable_digest_at(self, offset: int) -> bytes | None:
        """As `digest_at`, of what a power loss certainly leaves."""
        return _digest_at(self._durable, self.start, offset)

    def read(self, offset: int, limit: int) -> list[Batch]:
        """At most `limit` batches from the boundary at an offset on."""
        at = _index_of(self.batches, offset)
        return self.batches[at : at + limit]

    def append(self, count: int, epoch: int, payload: bytes) -> Batch:
        """Append `count` records of data in one batch."""
        return self._append(count, epoch, payload, None)

    def append_control(self, count: int, epoch: int, payload: bytes, voters: VoterSet) -> Batch:
        """Append a control batch of `count` records, the last one Voters if any are given."""
        content = b"%b %b" % (payload, voters_text(voters).encode())
        return self._append(count, epoch, content, voters)

    def append_copy(self, batch: Batch) -> Batch:
        """Append what another log has, with a digest of this one."""
        count = batch.next_offset - batch.base_offset
        voters = batch.voters if batch.is_control else None
        return self._append(count, batch.partition_leader_epoch, batch.payload, voters)

    def _append(self, count: int, epoch: int, payload: bytes, voters: VoterSet | None) -> Batch:
        assert count > 0
        assert epoch >= self.last_epoch, "an epoch may not go backwards"
        base = self.end_offset
        digest = digest_of(self.last_digest, base, base + count, epoch, payload)
        is_control = voters is not None
        batch = Batch(base, base + count, epoch, payload, digest, is_control, voters or NO_VOTERS)
        self.batches.append(batch)
        if batch.voters:
            self._voters.append(batch)
        return batch

    def voter_records(self, below: int) -> list[tuple[int, VoterSet]]:
        """The offsets and contents of the Voters records below an offset, the snapshot's first."""
        of_start = [(self.start.end - 1, self.start.voters)] if self.start.voters else []
        return of_start + [
            (batch.next_offset - 1, batch.voters)
            for batch in self._voters
            if batch.next_offset <= below
        ]

    @property
    def latest_voters(self) -> tuple[int, VoterSet]:
        """The last Voters record and its offset; none at -1 if there is none."""
        if self._voters:
            return self._voters[-1].next_offset - 1, self._voters[-1].voters
        return (self.start.end - 1, self.start.voters) if self.start.voters else (-1, NO_VOTERS)

    def _look_for_voters(self) -> None:
        self._voters = [batch for batch in self.batches if batch.voters]

    def truncate_to(self, offset: int) -> None:
        """Cut everything from the boundary at an offset on."""
        at = _index_of(self.batches, offset)
        del self.batches[at:]
        assert self.end_offset == offset, f"{offset} is inside a batch, or not in the log"
        self._look_for_voters()
        self._common = min(self._common, at)
        self._truncations += 1
        for flush in self._flushes:
            flush.end = min(flush.end, offset)

    def begin_flush(self) -> FlushInProgress:
        """Begin to sync what is in the log now."""
        flush = FlushInProgress(self.end_offset, self._truncations)
        self._flushes.append(flush)
        return flush

    def complete_flush(self, flush: FlushInProgress) -> None:
        """Make durable what the sync found and the log still has."""
        self._flushes.remove(flush)
        at = _index_of(self.batches, flush.end)
        if at > self._common or flush.truncations == self._truncations:
            del self._durable[self._common :]
            self._durable += self.batches[self._common : at]
            self._common = len(self._durable)

    def flush(self) -> None:
        """Make everything durable that is in the log."""
        self.complete_flush(self.begin_flush())

    def start_at(self, snapshot: Snapshot) -> None:
        """Move the log's start to one of its snapshots; older ones go."""
        assert self.snapshots[snapshot.id] == snapshot
        assert self.digest_at(snapshot.end) == snapshot.digest
        at = _index_of(self.batches, snapshot.end)
        if self._common < at:
            self.flush()
        del self.batches[:at]
        del self._durable[:at]
        self._common -= at
        self._begin_at(snapshot)

    def truncate_fully(self, snapshot: Snapshot) -> None:
        """Empty the log, and let it begin again where a fetched snapshot ends."""
        self.batches.clear()
        self._durable.clear()
        self._common = 0
        for flush in self._flushes:
            flush.end = snapshot.end
        self.snapshots[snapshot.id] = snapshot
        self._begin_at(snapshot)

    def _begin_at(self, snapshot: Snapshot) -> None:
        self.start = snapshot
        self._look_for_voters()
        for snapshot_id in [each for each in self.snapshots if each.offset < snapshot.end]:
            del self.snapshots[snapshot_id]

    def lose_power(self, chance: random.Random) -> bool:
        """Keep what was flushed, and by chance more; whether anything was lost.

        The file system may undo a truncation, or keep it with a part of what was appended.
        """
        whole = self.batches
        if self._common < len(self._durable) and chance.random() < 0.5:
            survivors = list(self._durable)
        else:
            survivors = whole[: chance.randint(self._common, len(whole))]
        self.batches = survivors
        self._durable = list(survivors)
        self._common = len(survivors)
        self._flushes.clear()
        self._look_for_voters()
        return len(survivors) < len(whole)


def _index_of(batches: list[Batch], offset: int) -> int:
    """The first batch that begins at an offset or beyond."""
    return bisect_left(batches, offset, key=lambda batch: batch.base_offset)


def _digest_at(batches: list[Batch], start: Snapshot, offset: int) -> bytes | None:
    if offset == start.end:
        return start.digest
    at = bisect_left(batches, offset, key=lambda batch: batch.next_offset)
    if at < len(batches) and batches[at].next_offset == offset:
        return batches[at].digest
    return None
