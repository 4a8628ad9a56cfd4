"""Records of internal topics that anybody, or a failing disk, may have written.

Keys and values come from the declarations of their schemas, every kind and version with every
other, filled with what nobody means; some are damaged afterwards: cut, lengthened, bits turned,
counts and lengths made huge or negative. They stand in batches of all sorts.
"""

import struct
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import stamp_crc
from tierlog.clients.record.builder import RecordBatchBuilder, build_control_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.clients.record.layout import BATCH_OVERHEAD
from tierlog.clients.record.varint import encode_unsigned_varint

from .hostile_messages import HostileMessages

_PREFIX = struct.Struct(">h")
_PREFIXES = (-(2**15), -1, 0, 1, 2, 3, 5, 9, 16, 2**15 - 1)
_HUGE = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x7f\xff", b"\xff" * 10)
_TIMES = (-(2**63), -1, 0, 1_750_000_000_000, 2**63 - 1)
_CODECS = (CompressionType.NONE, CompressionType.NONE, CompressionType.GZIP, CompressionType.LZ4)


class RecordKind(NamedTuple):
    """A type in a key, and the schemas of key and value; `versions` are those of the value."""

    number: int
    key: type[Message]
    value: type[Message]
    versions: range


class HostileRecords:
    """Makes records and batches of them, the same for the same seed."""

    def __init__(
        self, seed: str, kinds: Sequence[RecordKind], names: dict[str, tuple[object, ...]]
    ) -> None:
        self._random = Random(seed)
        self._messages = HostileMessages(seed, names)
        self._kinds = kinds

    def batch(self) -> bytearray:
        """The next batch of a few records, or a marker."""
        chance = self._random
        form = chance.random()
        if form < 0.1:
            return self._marker()
        is_transactional = chance.random() < 0.2
        builder = RecordBatchBuilder(
            compression=chance.choice(_CODECS),
            producer_id=chance.choice((0, 1, 2**63 - 1)) if is_transactional else -1,
            producer_epoch=chance.choice((0, 2**15 - 1)) if is_transactional else -1,
            is_transactional=is_transactional,
        )
        now_ms = chance.choice(_TIMES)
        for _ in range(chance.choice((1, 1, 2, 5))):
            builder.append(now_ms, *self.record())
        made = builder.build()
        if form < 0.2:
            # The bytes of its records are none, though the checksum is right.
            at = chance.randrange(BATCH_OVERHEAD, len(made))
            made[at:] = self._random.randbytes(len(made) - at)
            with memoryview(made) as view:
                stamp_crc(view, 0, len(made))
        return made

    def _marker(self) -> bytearray:
        kind = self._random.choice((ControlRecordType.COMMIT, ControlRecordType.ABORT))
        epoch = self._random.choice((-1, 0, 2**31 - 1))
        made = build_control_batch(
            EndTransactionMarker(kind, epoch),
            self._random.choice(_TIMES),
            producer_id=self._random.choice((0, 1, 7)),
            producer_epoch=0,
        )
        if self._random.random() < 0.5:
            made[-8:] = self._random.randbytes(8)
            with memoryview(made) as view:
                stamp_crc(view, 0, len(made))
        return made

    def record(self) -> tuple[bytes | None, bytes | None]:
        """The next key and value."""
        chance = self._random
        kind = chance.choice(self._kinds)
        key = _PREFIX.pack(kind.number) + self._filled(kind.key, 0)
        value = self._value(kind if chance.random() < 0.8 else chance.choice(self._kinds))
        if chance.random() < 0.1:
            key = self._damaged(key)
        if value is not None and chance.random() < 0.3:
            value = self._damaged(value)
        return (key if chance.random() < 0.98 else None), value

    def value(self) -> bytes:
        """An event of a topic whose values say all, each after the numbers of its frame."""
        kind = self._random.choice(self._kinds)
        frame = b"".join(map(encode_unsigned_varint, (1, kind.number, 0)))
        value = frame + self._filled(kind.value, 0)
        return self._damaged(value) if self._random.random() < 0.3 else value

    def _value(self, kind: RecordKind) -> bytes | None:
        if self._random.random() < 0.1:
            return None
        version = self._random.choice(kind.versions)
        prefix = version if self._random.random() < 0.9 else self._random.choice(_PREFIXES)
        return _PREFIX.pack(prefix) + self._filled(kind.value, version)

    def _filled(self, cls: type[Message], version: int) -> bytes:
        return encode_bytes(self._messages.message(cls, version), version)

    def _damaged(self, content: bytes) -> bytes:
        chance, changed = self._random, bytearray(content)
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0:
                del changed[at:]
            case 1:
                changed[at:at] = chance.randbytes(chance.choice((1, 4, 200)))
            case 2:
                huge = chance.choice(_HUGE)
                changed[at : at + len(huge)] = huge
            case 3:
                changed[: _PREFIX.size] = _PREFIX.pack(chance.choice(_PREFIXES))
            case _:
                for _ in range(3):
                    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)
