"""Reads the metadata topic from the disk of a stopped broker.

Bytes that are not a record batch are skipped up to the next complete batch, and reported as a
finding, so that the caller knows what was not read. At the end of the last file they are only a
note: a broker killed during a write leaves a partial batch there.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ...clients.errors import KafkaError
from ...clients.record.batch import RecordBatch
from ...clients.record.layout import BATCH_OVERHEAD, LOG_OVERHEAD, OFFSET_AND_LENGTH
from ...clients.topic_partition import TopicPartition
from ...storage.files import Files
from ...storage.log_file import LOG_SUFFIX, has_offset_name, offset_of
from .known_metadata import KnownMetadata
from .read_metadata import incomplete
from .tier_survey import Finding

_MAGIC = b"\x02"
_MAGIC_POSITION = 16
_OFFSETS_AHEAD_MAX = 2**31 - 1

_ADVICE = "its events about remote segments are missing here"


class _Unread(NamedTuple):
    """Bytes of a file that are not a record batch."""

    path: str
    position: int
    end: int
    reason: str

    def finding(self, offset: int, next_offset: int) -> Finding:
        """The finding for the unread offsets from `offset` to before `next_offset`."""
        problem = (
            f"there is no complete record batch at position {self.position} ({self.reason}): "
            f"{self.end - self.position} bytes were not read"
        )
        offsets = (offset, next_offset - 1) if offset < next_offset else ()
        return Finding(self.path, problem, _ADVICE, offsets=offsets)

    def note(self) -> Finding:
        problem = (
            f"the last {self.end - self.position} bytes, from position {self.position} on, are "
            f"not a complete record batch ({self.reason})"
        )
        advice = "the broker was writing them when it was killed, and its next start"
        return Finding(self.path, problem, f"{advice} truncates them", is_trouble=False)


class StoredMetadata:
    """Reads the topic's partitions one by one."""

    def __init__(self, files: Files, metadata: KnownMetadata) -> None:
        self._files = files
        self._metadata = metadata
        self.findings: list[Finding] = []
        """The bytes and offsets that were not read."""

    def read(self, directory: str, partition: TopicPartition) -> None:
        """Apply a partition's log. Raises OSError, and KafkaError if its start is missing."""
        expected = 0
        unread: _Unread | None = None
        for name in self._files.listdir(directory):
            if not (name.endswith(LOG_SUFFIX) and has_offset_name(name)):
                continue
            path, base = f"{directory}/{name}", offset_of(name)
            if base > expected and unread is None:
                if expected == 0:
                    raise incomplete(partition, base)
                self.findings.append(_lost_finding(path, expected, base))
                expected = base
            for entry in _batches(self._files.read(path), path, expected):
                if isinstance(entry, _Unread):
                    if unread is not None:
                        self.findings.append(unread.finding(expected, base))
                        expected = max(expected, base)
                    unread = entry
                    continue
                if unread is not None:
                    self.findings.append(unread.finding(expected, entry.base_offset))
                    unread = None
                self._metadata.apply_all(entry, partition.partition)
                expected = entry.next_offset
        if unread is not None:
            self.findings.append(unread.note())


def _lost_finding(path: str, expected: int, base: int) -> Finding:
    """The finding for a missing or truncated file before this one."""
    problem = "a file before it was removed or truncated; its records were not read"
    return Finding(path, problem, _ADVICE, offsets=(expected, base - 1))


def _batches(content: bytes, path: str, expected: int) -> Iterator[RecordBatch | _Unread]:
    """The valid batches of a file, and the unreadable bytes between them."""
    view = memoryview(content)
    position = 0
    while position < len(view):
        batch = _batch_at(view, position)
        if isinstance(batch, RecordBatch):
            yield batch
            expected = batch.next_offset
            position += batch.size_in_bytes
            continue
        end = _next_batch(content, position, expected)
        yield _Unread(path, position, end, batch)
        position = end


def _batch_at(view: memoryview, position: int) -> RecordBatch | str:
    """The valid batch at a position, or why there is none."""
    try:
        batch = RecordBatch(view, position)
        batch.ensure_valid()
    except KafkaError as error:
        return error.message.rstrip(".")
    return batch


def _next_batch(content: bytes, damaged_at: int, expected: int) -> int:
    """Where the next valid batch begins, or the end of the file if there is none."""
    view = memoryview(content)
    if len(content) - damaged_at >= LOG_OVERHEAD:
        # If the length field is intact, it leads to the next batch.
        length: int = OFFSET_AND_LENGTH.unpack_from(content, damaged_at)[1]
        position = damaged_at + LOG_OVERHEAD + length
        if damaged_at < position < len(content) and _may_begin(content, position, expected):
            return position
    position = damaged_at
    while True:
        magic_at = content.find(_MAGIC, position + 1 + _MAGIC_POSITION)
        if magic_at < 0:
            return len(content)
        position = magic_at - _MAGIC_POSITION
        if _may_begin(content, position, expected) and isinstance(
            _batch_at(view, position), RecordBatch
        ):
            return position


def _may_begin(content: bytes, position: int, expected: int) -> bool:
    """Whether the header at a position has a plausible size and base offset."""
    if len(content) - position < BATCH_OVERHEAD:
        return False
    header: tuple[int, int] = OFFSET_AND_LENGTH.unpack_from(content, position)
    base_offset, size = header[0], LOG_OVERHEAD + header[1]
    return (
        BATCH_OVERHEAD <= size <= len(content) - position
        and expected <= base_offset <= expected + _OFFSETS_AHEAD_MAX
    )
