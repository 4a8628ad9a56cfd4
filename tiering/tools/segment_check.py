"""Checks a segment in the tier against its manifest, byte by byte and record by record.

The log is read once from start to end, a few megabytes at a time; only one piece, and a batch that
spans two pieces, are in memory. The checks:

- the size and CRC32C of each object match the manifest;
- each batch's CRC is valid, its offsets continue from the previous batch, and its leader epoch is
  the manifest's for its offsets; the manifest knows no epochs below the log start offset, if that
  lay in the midst of the segment when it was copied, but there, none is above its first;
- each entry of the offset index points to the start of a batch whose base offset is not above the
  entry's offset; entries of the time index ascend and none exceeds the segment's max timestamp;
- aborted transactions end within the segment, the producer snapshot is valid, and the epoch history
  matches the manifest's epochs for the segment's offsets.

A gap between two batches is only a note: a topic that was once compacted has gaps.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from struct import Struct
from typing import NamedTuple

from ...clients.errors import KafkaError
from ...clients.record.batch import RecordBatch, batches
from ...clients.record.checksum import crc32c
from ...clients.record.layout import (
    BATCH_OVERHEAD,
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    TRANSACTION_INDEX_ENTRY,
)
from ...storage.checkpoint import MalformedCheckpointError, parse_epochs
from ...storage.producer.producer_snapshot import CorruptSnapshotError, decode_snapshot
from ...storage.remote.remote_lineage import NO_EPOCH, epoch_of_offset
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ..remote_storage import IndexType, RemoteResourceNotFound
from ..store.manifest import Manifest
from ..store.object_keys import LOG_SUFFIX, MANIFEST_SUFFIX, object_key
from .tier_survey import (
    RESTORE,
    DamagedPartError,
    Finding,
    TierReader,
    advice_beside_log,
    offsets_of,
    read_part,
)

PIECE_BYTES = 4 * 1024 * 1024
_REMOVE_INDEX = (
    "the records are not lost, they are in the segment's log object: remove this one, and"
    " `tierlog tier repair` writes it again"
)
"""Of an index that matches its manifest: `repair` does not hold it against the log."""


class _Problem(NamedTuple):
    text: str
    is_trouble: bool = True
    is_of_index: bool = False
    """Found beside the log, but the offset index is wrong, and not the log."""


Watch = Callable[[RecordBatch], None]
"""A callback that gets each checked batch, even one with problems."""


def _nobody(_batch: RecordBatch) -> None:
    """A `Watch` that does nothing."""


class BatchWalk:
    """Checks the batches of one segment in order and yields their problems."""

    def __init__(
        self, segment: RemoteLogSegmentMetadata, offset_index: bytes, watch: Watch = _nobody
    ) -> None:
        self._segment = segment
        self._watch = watch
        self._expected = segment.start_offset
        self._entries = OFFSET_INDEX_ENTRY.iter_unpack(_whole_entries(offset_index, 8))
        self._next_entry = next(self._entries, None)
        self._position = 0
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[_Problem]:
        """Check the next bytes of the log.

        Raises KafkaError if bytes are not a batch: the rest cannot be checked.
        """
        content = self._rest + piece if self._rest else piece
        used = 0
        for batch in batches(content):
            yield from self._batch(batch)
            self._watch(batch)
            used += batch.size_in_bytes
            self._position += batch.size_in_bytes
        self._rest = content[used:]

    def end(self) -> Iterator[_Problem]:
        """Check the end of the log."""
        if self._rest:
            yield _Problem(f"the log ends within a batch, at position {self._position}")
        elif self._expected != self._segment.end_offset + 1:
            yield _Problem(
                f"the log ends before offset {self._expected} and not after "
                f"{self._segment.end_offset}",
                is_trouble=self._expected > self._segment.end_offset + 1,
            )
        if self._next_entry is not None:
            yield _of_index("points beyond the end of the log")

    def _batch(self, batch: RecordBatch) -> Iterator[_Problem]:
        where = f"the batch at offset {batch.base_offset}"
        if batch.size_in_bytes < BATCH_OVERHEAD or not batch.crc_is_valid():
            yield _Problem(f"{where} does not match its CRC")
        if batch.base_offset < self._expected or batch.last_offset_delta < 0:
            yield _Problem(f"{where} is out of order: offset {self._expected} was expected")
        elif batch.base_offset > self._expected:
            gap = f"no record at the offsets {self._expected} to {batch.base_offset - 1}"
            yield _Problem(f"{gap} (a topic that was compacted once may have such gaps)", False)
        epochs = self._segment.segment_leader_epochs
        epoch, its_epoch = epoch_of_offset(epochs, batch.last_offset), batch.partition_leader_epoch
        if epoch == NO_EPOCH:
            if its_epoch > epochs[0][0]:
                yield _Problem(f"{where} has leader epoch {its_epoch}, not at most {epochs[0][0]}")
        elif its_epoch != epoch:
            yield _Problem(f"{where} has leader epoch {its_epoch}, not {epoch}")
        yield from self._index_entries(batch)
        self._expected = batch.next_offset

    def _index_entries(self, batch: RecordBatch) -> Iterator[_Problem]:
        while self._next_entry is not None:
            relative, position = self._next_entry
            if position > self._position:
                return
            self._next_entry = next(self._entries, None)
            offset = self._segment.start_offset + relative
            if position < self._position:
                yield _of_index(f"points into the middle of a batch, at {position}")
            elif offset < batch.base_offset:
                yield _of_index(f"points past the batch of offset {offset}, to {position}")


def _of_index(problem: str) -> _Problem:
    return _Problem(f"the offset index {problem}", is_of_index=True)


def _whole_entries(content: bytes, size: int) -> bytes:
    return content[: len(content) - len(content) % size]


async def check_segment(
    tier: TierReader, manifest: Manifest, watch: Watch = _nobody
) -> list[Finding]:
    """Read and check a whole segment. Raises RemoteStorageError if the store does not answer.

    Returns no findings if the segment was deleted meanwhile: a deletion removes the manifest first.
    """
    findings = await _check(tier, manifest, watch)
    if findings:
        try:
            await tier.read(object_key(manifest.metadata, MANIFEST_SUFFIX))
        except RemoteResourceNotFound:
            return []
    return findings


async def _check(tier: TierReader, manifest: Manifest, watch: Watch) -> list[Finding]:
    metadata = manifest.metadata
    problems: list[tuple[str, _Problem]] = []

    def add(suffix: str, problem: _Problem) -> None:
        problems.append((suffix, problem))

    parts: dict[str, bytes] = {}
    for suffix in manifest.parts:
        if suffix == LOG_SUFFIX:
            continue
        try:
            parts[suffix] = await read_part(tier, manifest, suffix)
        except DamagedPartError as error:
            add(suffix, _Problem(str(error)))
            continue
        for problem in _part_problems(metadata, suffix, parts[suffix]):
            add(suffix, problem)
    walk = BatchWalk(metadata, parts.get(IndexType.OFFSET.value, b""), watch)
    try:
        async for problem in _check_log(tier, manifest, walk):
            add(IndexType.OFFSET.value if problem.is_of_index else LOG_SUFFIX, problem)
    except RemoteResourceNotFound:
        add(LOG_SUFFIX, _Problem("log is missing"))
    is_log_whole = not any(each.is_trouble for suffix, each in problems if suffix == LOG_SUFFIX)

    def advice(suffix: str, problem: _Problem) -> str:
        if not is_log_whole:
            return RESTORE
        return _REMOVE_INDEX if problem.is_of_index else advice_beside_log(suffix)

    return [
        Finding(
            object_key(metadata, suffix),
            each.text,
            advice(suffix, each) if each.is_trouble else "nothing needs to be done",
            each.is_trouble,
            offsets_of(metadata),
        )
        for suffix, each in problems
    ]


async def _check_log(
    tier: TierReader, manifest: Manifest, walk: BatchWalk | None
) -> AsyncIterator[_Problem]:
    part = manifest.parts[LOG_SUFFIX]
    key = object_key(manifest.metadata, LOG_SUFFIX)
    crc = 0
    for start in range(0, part.size, PIECE_BYTES):
        piece = await tier.read(key, start, min(start + PIECE_BYTES, part.size))
        crc = crc32c(piece, crc)
        if walk is not None:
            try:
                for problem in walk.feed(piece):
                    yield problem
            except KafkaError as error:
                yield _Problem(f"the rest of the log cannot be read: {error.message}")
                walk = None
    if walk is not None:
        for problem in walk.end():
            yield problem
    if crc != part.crc:
        yield _Problem("the log does not match the CRC32C of its manifest")


def part_problem(metadata: RemoteLogSegmentMetadata, suffix: str, content: bytes) -> str | None:
    """What is wrong with what a small part says; None if nothing is."""
    problems = _part_problems(metadata, suffix, content)
    return next((problem.text for problem in problems if problem.is_trouble), None)


def _part_problems(
    metadata: RemoteLogSegmentMetadata, suffix: str, content: bytes
) -> Iterator[_Problem]:
    if suffix == IndexType.OFFSET.value:
        yield from _ascending(content, OFFSET_INDEX_ENTRY, "offset index")
    elif suffix == IndexType.TIMESTAMP.value:
        yield from _ascending(content, TIME_INDEX_ENTRY, "time index")
        yield from _times(metadata, content)
    elif suffix == IndexType.TRANSACTION.value:
        yield from _transactions(metadata, content)
    elif suffix == IndexType.PRODUCER_SNAPSHOT.value:
        try:
            decode_snapshot(content)
        except CorruptSnapshotError as error:
            yield _Problem(str(error))
    elif suffix == IndexType.LEADER_EPOCH.value:
        yield from _epochs(metadata, content)


def _ascending(content: bytes, entry: Struct, name: str) -> Iterator[_Problem]:
    if len(content) % entry.size:
        yield _Problem(f"the {name} has {len(content)} bytes, not a multiple of {entry.size}")
    previous = (-1, -1)
    for fields in entry.iter_unpack(_whole_entries(content, entry.size)):
        if fields[0] <= previous[0] or fields[1] < previous[1]:
            yield _Problem(f"the entries of the {name} are out of order")
            return
        previous = fields


def _times(metadata: RemoteLogSegmentMetadata, content: bytes) -> Iterator[_Problem]:
    length = metadata.end_offset - metadata.start_offset
    for timestamp, relative in TIME_INDEX_ENTRY.iter_unpack(
        _whole_entries(content, TIME_INDEX_ENTRY.size)
    ):
        if timestamp > metadata.max_timestamp_ms or not 0 <= relative <= length:
            yield _Problem("the time index has a record that the segment cannot have")
            return


def _transactions(metadata: RemoteLogSegmentMetadata, content: bytes) -> Iterator[_Problem]:
    if len(content) % TRANSACTION_INDEX_ENTRY.size:
        yield _Problem(f"the transaction index has {len(content)} bytes")
    whole = _whole_entries(content, TRANSACTION_INDEX_ENTRY.size)
    for _, _, first, last, _ in TRANSACTION_INDEX_ENTRY.iter_unpack(whole):
        if not (first <= last and metadata.start_offset <= last <= metadata.end_offset):
            yield _Problem(f"an aborted transaction ends at {last}, outside the segment")
            return


def _epochs(metadata: RemoteLogSegmentMetadata, content: bytes) -> Iterator[_Problem]:
    try:
        history = parse_epochs(content)
    except MalformedCheckpointError as error:
        yield _Problem(str(error))
        return
    epochs = metadata.segment_leader_epochs
    is_same = all(epoch_of_offset(history, start) == epoch for epoch, start in epochs)
    if not is_same or epoch_of_offset(history, metadata.end_offset) != epochs[-1][0]:
        yield _Problem("the leader epochs differ from those in the manifest")
