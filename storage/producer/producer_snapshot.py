"""The `.snapshot` file: every producer's state at the offset in the file's name.

    version   int16   1
    crc       uint32  CRC32C of everything after it
    count     int32
    entries   46 bytes each: producer id, epoch, last sequence, last offset, offset delta,
              timestamp, coordinator epoch, first offset of the open transaction or -1

Only the last batch of a producer is kept, as in Kafka. A snapshot that does not match its CRC is
deleted: the state is then rebuilt from an older snapshot by replaying more of the log (Kafka's
`ProducerStateManager`).
"""

from collections.abc import Iterable
from struct import Struct

from ...clients.record.checksum import crc32c
from .producer_entry import BatchMetadata, ProducerEntry

_HEADER = Struct(">hIi")
_CRC_END = 6
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1


class CorruptSnapshotError(Exception):
    """The bytes are not a complete producer snapshot."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The content of a snapshot file."""
    packed: list[bytes] = []
    for entry in entries:
        batch = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, 0, -1)
        first_offset = entry.current_txn_first_offset
        packed.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                -1 if first_offset is None else first_offset,
            )
        )
    body = len(packed).to_bytes(4, "big") + b"".join(packed)
    return _HEADER.pack(_VERSION, crc32c(body), len(packed)) + body[4:]


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """The entries of a snapshot file. Raises CorruptSnapshotError."""
    if len(content) < _HEADER.size:
        raise CorruptSnapshotError(f"A snapshot of {len(content)} bytes is too short.")
    version, crc, count = _HEADER.unpack_from(content)
    if version != _VERSION:
        raise CorruptSnapshotError(f"A snapshot has an unknown version: {version}.")
    if crc32c(memoryview(content)[_CRC_END:]) != crc:
        raise CorruptSnapshotError("A snapshot does not match its checksum.")
    if count * _ENTRY.size != len(content) - _HEADER.size:
        raise CorruptSnapshotError(f"The length of a snapshot does not match its {count} entries.")
    entries: list[ProducerEntry] = []
    for fields in _ENTRY.iter_unpack(content[_HEADER.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, first = fields
        entry = ProducerEntry(producer_id, epoch)
        entry.coordinator_epoch = coordinator
        entry.last_timestamp = timestamp
        entry.current_txn_first_offset = first if first >= 0 else None
        if offset >= 0:
            entry.batches.append(BatchMetadata(sequence, offset, delta, timestamp))
        entries.append(entry)
    return entries
