"""Validates the records of one batch by their lengths, without decoding keys or values.

It detects everything that would stop a reader: records that do not fill the batch exactly, fields
that do not fill their record, offset deltas that are not 0, 1, 2 … in order. It also finds the
first record without a key, and whether the header's largest timestamp is right.

Every produced batch is walked. Three observations make that cheap:

- Neighbouring records mostly have one shape: the same lengths, and varints of the same size. Each
  byte of a field then recurs one record size (the stride) apart, as a column, and one slice with
  that stride compares the column with its expected bytes in C, for any number of records.
- Where only the lengths of keys and values differ, the bytes before the keys and after the values
  are cut out and joined: these form columns again, which is less work than walking field by
  field.
- The varints of offset deltas are known beforehand: the tables below hold those of 8192 records.

Other records are walked one by one, at about a microsecond each. The walk pauses every `SLICE`
records, or after a run that extends further, so that a large batch need not block the event loop.
"""

from collections.abc import Iterator

from ..errors import ErrorCode, KafkaError
from .batch import RecordBatch
from .varint import ZIGZAG, read_varint, read_varlong

SMALLEST_RECORD_BYTES = 7
"""One byte each for the length, attributes, two deltas, two lengths and the header count."""

SLICE = 4_096
"""Records between two pauses: a few milliseconds of work."""

_COPY_BELOW_BYTES = 2_048
"""Batches of smaller records (on average) are copied to bytes, whose small slices cost less."""
_ONE_BYTE_DELTAS = 64
_BLOCK = 8_192
"""How many offset deltas take at most two bytes, and how many later ones share a third byte."""
_THREE_BYTE_DELTAS = 64 * _BLOCK * 2
_RUN_MIN, _RUN_MAX = 64, _BLOCK
_SIMILAR_MIN, _SIMILAR_MAX = 32, 2_048
_PAUSE_BETWEEN_RUNS = 16
_TIME_BYTES_MAX = 3
"""If timestamp deltas need more bytes (more than 17 minutes), no runs are searched for."""

_DELTA = bytes(delta * 2 & 0x7F for delta in range(_BLOCK))
_DELTA_FIRST = bytes(each | 0x80 for each in _DELTA)
_DELTA_SECOND = bytes(delta * 2 >> 7 for delta in range(_BLOCK))
_DELTA_MIDDLE = bytes(each | 0x80 for each in _DELTA_SECOND)
_BEYOND = 1 << 31
"""In place of a length that the tables lack: the record then seems to exceed the batch, so it is
left to the walk field by field."""
_LENGTH = tuple(_BEYOND if byte & 1 else byte >> 1 for byte in range(0x80))
"""A record's length, by its one-byte varint."""
_LENGTH_OR_NULL = tuple(0 if byte & 1 else byte >> 1 for byte in range(0x80))
"""The length of a key or value, which may be null, by its one-byte varint."""
_LENGTH_FIRST = tuple(_BEYOND if byte & 1 else (byte & 0x7F) >> 1 for byte in range(0x100))
_LENGTH_SECOND = tuple(_BEYOND if byte & 0x80 else byte << 6 for byte in range(0x100))
"""The parts of a length that are in the first and in the second byte of a two-byte varint."""
_EVEN = bytes(range(0, 0x100, 2))
_ENDING = bytes(range(0x80))
_CONTINUED = bytes(range(0x80, 0x100))
LATEST_OF_ONE_BYTE = 63
AT_MOST = tuple(
    bytes(byte for byte in range(0x80) if ZIGZAG[byte] <= delta)
    for delta in range(LATEST_OF_ONE_BYTE + 1)
)
"""For each delta, the one-byte varints of that delta and of all smaller ones."""


class RecordWalk:
    """One walk. Once `steps` or `finish` has ended, the batch is sound and the fields are set."""

    __slots__ = (
        "_at",
        "_claimed",
        "_count",
        "_data",
        "_index",
        "_run_size",
        "_similar_size",
        "_size",
        "first_keyless",
        "has_claimed",
        "has_later",
    )

    def __init__(self, batch: RecordBatch, plain: bytes | bytearray | memoryview) -> None:
        """`plain` holds the batch's records, decompressed.

        Raises KafkaError(INVALID_RECORD) if `plain` is too small for the record count.
        """
        count, size = batch.record_count, len(plain)
        if not 0 <= count * SMALLEST_RECORD_BYTES <= size:
            raise _invalid(f"A batch claims {count} records in {size} bytes.")
        self._data = bytes(plain) if size < count * _COPY_BELOW_BYTES else plain
        self._size = size
        self._count = count
        self._claimed = batch.max_timestamp - batch.base_timestamp
        self._at = self._index = 0
        self._run_size = _RUN_MIN
        self._similar_size = _SIMILAR_MIN
        self.first_keyless = -1
        """The index of the first record without a key; -1 if all have one."""
        self.has_claimed = False
        """Whether some record has the header's largest timestamp."""
        self.has_later = False
        """Whether some record has a larger timestamp."""

    @property
    def agrees_on_time(self) -> bool:
        """Whether the header's largest timestamp is indeed the largest of the records."""
        return self.has_claimed and not self.has_later

    def finish(self) -> None:
        """Walk to the end. Raises KafkaError(INVALID_RECORD)."""
        try:
            self._walk(self._count)
        except IndexError:
            raise _ends_early() from None
        if self._at != self._size:
            raise _goes_on()

    def steps(self) -> Iterator[None]:
        """Walk to the end, pausing after each `SLICE`. Raises KafkaError(INVALID_RECORD)."""
        try:
            while self._index < self._count:
                self._walk(min(self._count, self._index + SLICE))
                if self._index < self._count:
                    yield
        except IndexError:
            raise _ends_early() from None
        if self._at != self._size:
            raise _goes_on()

    def _walk(self, until: int) -> None:
        """Walk up to the record `until`, or beyond it if a run of records extends further."""
        # Varints of one and two bytes are decoded inline: this loop runs per produced record.
        data, index, at, total = self._data, self._index, self._at, self._size
        claimed, next_run = self._claimed, index
        while index < until:
            start = at
            size, at = (
                (ZIGZAG[b], at + 1)
                if (b := data[at]) < 0x80
                else ((b & 0x7F | c << 7) >> 1 ^ -(b & 1), at + 2)
                if (c := data[at + 1]) < 0x80
                else read_varint(data, at)
            )
            end = at + size
            if size < 0 or end > total:
                raise _invalid(f"Found invalid record size {size} in a batch of {total} bytes.")
            time_at = at + 1
            time, delta_at = (
                (ZIGZAG[b], time_at + 1)
                if (b := data[time_at]) < 0x80
                else read_varlong(data, time_at)
            )
            if time >= claimed:
                self._note_time(time)
            key_at = (
                delta_at + 1
                if index < _ONE_BYTE_DELTAS and data[delta_at] == _DELTA[index]
                else delta_at + 2
                if _ONE_BYTE_DELTAS <= index < _BLOCK
                and data[delta_at] == _DELTA_FIRST[index]
                and data[delta_at + 1] == _DELTA_SECOND[index]
                else _behind_delta(data, delta_at, index)
            )
            size, at = (
                (ZIGZAG[b], key_at + 1) if (b := data[key_at]) < 0x80 else read_varint(data, key_at)
            )
            if size >= 0:
                at += size
            elif self.first_keyless < 0:
                self.first_keyless = index
            value_at = at
            size, at = (
                (ZIGZAG[b], at + 1)
                if (b := data[at]) < 0x80
                else ((b & 0x7F | c << 7) >> 1 ^ -(b & 1), at + 2)
                if (c := data[at + 1]) < 0x80
                else read_varint(data, at)
            )
            headers_at = at + size if size > 0 else at
            at = headers_at + 1 if not data[headers_at] else _behind_headers(data, headers_at, end)
            if at != end:
                raise _invalid(f"The fields of record {index} do not fill its announced length.")
            index += 1
            if next_run <= index < self._count:
                places = (start, time_at, delta_at, key_at, value_at, headers_at)
                passed, at = self._pass_run(at, index, places)
                index += passed
                next_run = index if passed >= _PAUSE_BETWEEN_RUNS else index + _PAUSE_BETWEEN_RUNS
        self._index, self._at = index, at

    def _note_time(self, delta: int) -> None:
        """Note a record's time delta that is at least the header's largest."""
        if delta == self._claimed:
            self.has_claimed = True
        else:
            self.has_later = True

    def _pass_run(self, at: int, index: int, places: tuple[int, ...]) -> tuple[int, int]:
        """Skip sound records like the one before `at`; returns their number and where they end.

        `places` are the positions of that record and its fields.
        """
        data, start = self._data, places[0]
        next_at = at * 2 - start
        if (
            data[at] == data[start]
            and data[at + 1] == data[start + 1]
            and (next_at >= self._size or data[next_at] == data[start])
        ):
            alike = self._pass_alike(at, index, places)
            return alike, at + alike * (at - start)
        return self._pass_similar(at, index, places)

    def _pass_alike(self, at: int, index: int, places: tuple[int, ...]) -> int:
        """How many records from `at` on are sound and have the same lengths as the one before.

        Checks at most four times as many records as the last call skipped, so that the cost stays
        proportional to the number of skipped records.
        """
        data = self._data
        start, time_at, delta_at, key_at, value_at, headers_at = places
        stride = at - start
        alike = looked_at = min(
            self._run_size,
            self._count - index,
            (self._size - at) // stride,
            until_longer_delta(index, key_at - delta_at),
        )
        lengths = (*varint_places(data, key_at), *varint_places(data, value_at))
        headers = header_lengths(data, headers_at) if data[headers_at] else (headers_at,)
        for place in (*range(start, time_at - 1), *lengths, *headers):
            expected = bytes(data[place : place + 1])
            column = self._column(place, stride, alike)
            if column != expected * alike:
                alike -= len(column.lstrip(expected))
        times = [self._column(place, stride, alike) for place in range(time_at, delta_at)]
        alike = self._pass_times(times, alike)
        for offset, deltas in enumerate(delta_columns(index, alike, key_at - delta_at)):
            if self._column(delta_at + offset, stride, alike) != deltas:
                alike = 0
        is_over = alike < looked_at
        self._run_size = _RUN_MIN if is_over else min(self._run_size * 4, _RUN_MAX)
        return alike

    def _column(self, place: int, stride: int, count: int) -> bytes:
        """The bytes at `place` plus 1, 2 … `count` strides: one from each following record."""
        return bytes(self._data[place + stride : place + stride * (count + 1) : stride])

    def _pass_similar(self, at: int, index: int, places: tuple[int, ...]) -> tuple[int, int]:
        """Like `_pass_run`, for records whose keys and values may differ in length."""
        data = self._data
        _, time_at, delta_at, key_at, _, headers_at = places
        looked_at = min(
            self._similar_size, self._count - index, until_longer_delta(index, key_at - delta_at)
        )
        # From the attributes to the length of the key, if that takes one byte.
        head, tail = key_at + 2 - time_at, at - headers_at
        heads, tails, ends = self._cut(at, looked_at, head, tail)
        _, *columns, keys = [heads[offset::head] for offset in range(head)]
        alike = len(ends)
        if tail > 1:
            for place in header_lengths(data, headers_at):
                expected = bytes(data[place : place + 1])
                column = tails[place - headers_at :: tail]
                if column != expected * len(column):
                    alike = min(alike, len(column) - len(column.lstrip(expected)))
        times, deltas = columns[: delta_at - time_at], columns[delta_at - time_at :]
        alike = self._pass_times(times, alike)
        for column, expected in zip(deltas, delta_columns(index, alike, len(deltas)), strict=True):
            if column[:alike] != expected:
                alike = 0
        keyless = keys[:alike].translate(None, _EVEN)
        if keyless and self.first_keyless < 0:
            self.first_keyless = index + keys.index(keyless[0])
        is_over = alike < looked_at
        self._similar_size = _SIMILAR_MIN if is_over else min(alike * 4, _SIMILAR_MAX)
        return alike, ends[alike - 1] if alike else at

    def _cut(self, at: int, count: int, head: int, tail: int) -> tuple[bytes, bytes, list[int]]:
        """Cut the heads and tails out of records that consist of head, key, value and tail.
        Returns all heads joined, all tails joined, and where each record ends. With a `tail` of one
        byte the records must have no headers.
        """
        data, size = self._data, self._size
        heads: list[bytes | bytearray | memoryview] = []
        tails: list[bytes | bytearray | memoryview] = []
        ends: list[int] = []
        try:
            for _ in range(count):
                if (b := data[at]) < 0x80:
                    at += 1
                    end = at + _LENGTH[b]
                else:
                    end = at + 2 + _LENGTH_FIRST[b] + _LENGTH_SECOND[data[at + 1]]
                    at += 2
                begin = data[at : at + head]
                at += head + _LENGTH_OR_NULL[begin[-1]]
                if (b := data[at]) < 0x80:
                    at += 1 + _LENGTH_OR_NULL[b]
                else:
                    at += 2 + _LENGTH_FIRST[b] + _LENGTH_SECOND[data[at + 1]]
                if at + tail != end or end > size:
                    break
                if tail > 1:
                    tails.append(data[at:end])
                elif data[at]:
                    break
                heads.append(begin)
                ends.append(end)
                at = end
        except IndexError:
            # A key length of more than one byte, or a field that ends beyond the batch.
            pass
        return b"".join(heads), b"".join(tails), ends

    def _pass_times(self, columns: list[bytes], alike: int) -> int:
        """Note timestamp deltas, at most `alike`, up to the first that is not a varint of
        `len(columns)` bytes; returns how many.

        The first column holds the first byte of each delta, the second the second, and so on.
        """
        size = len(columns)
        if size > _TIME_BYTES_MAX:
            return 0
        for column in columns[:-1]:
            alike = min(alike, len(column) - len(column.lstrip(_CONTINUED)))
        last = columns[-1]
        if not last.isascii():
            alike = min(alike, len(last) - len(last.lstrip(_ENDING)))
        columns = [column[:alike] for column in columns]
        times, claimed = columns[-1], self._claimed
        if size == 1 and 0 <= claimed <= LATEST_OF_ONE_BYTE:
            if times.translate(None, AT_MOST[claimed]):
                self.has_later = True
            elif not self.has_claimed and claimed * 2 in times:
                self.has_claimed = True
            return alike
        for encoded in set(zip(*columns, strict=True)):
            number = 0
            for position, byte in enumerate(encoded):
                number |= (byte & 0x7F) << 7 * position
            if (time := number >> 1 ^ -(number & 1)) >= claimed:
                self._note_time(time)
        return alike


def until_longer_delta(index: int, size: int) -> int:
    """How many offset deltas from `index` on are varints of this size and are in the tables."""
    if size == 1:
        return max(_ONE_BYTE_DELTAS - index, 0)
    if size == 2:
        return max(_BLOCK - index, 0)
    is_known = size == 3 and _BLOCK <= index < _THREE_BYTE_DELTAS
    return _BLOCK - index % _BLOCK if is_known else 0


def delta_columns(index: int, count: int, size: int) -> tuple[bytes, ...]:
    """The columns of `count` offset deltas from `index` on, as varints of this size."""
    if size == 1:
        return (_DELTA[index : index + count],)
    begin = index % _BLOCK
    end = begin + count
    if size == 2:
        return _DELTA_FIRST[begin:end], _DELTA_SECOND[begin:end]
    third = bytes((index // _BLOCK,)) * count
    return _DELTA_FIRST[begin:end], _DELTA_MIDDLE[begin:end], third


def varint_places(data: bytes | bytearray | memoryview, at: int) -> range:
    """The positions of the bytes of the varint at `at`."""
    end = at
    while data[end] > 0x7F:
        end += 1
    return range(at, end + 1)


def header_lengths(data: bytes | bytearray | memoryview, at: int) -> list[int]:
    """The positions of the bytes of the header count and of all lengths in the headers at `at`."""
    places = [*varint_places(data, at)]
    count, at = read_varint(data, at)
    for _ in range(2 * count):
        if (b := data[at]) < 0x80:
            places.append(at)
            length, at = ZIGZAG[b], at + 1
        else:
            places += varint_places(data, at)
            length, at = read_varint(data, at)
        if length > 0:
            at += length
    return places


def _behind_delta(data: bytes | bytearray | memoryview, at: int, index: int) -> int:
    """The position after the offset delta at `at`, which must equal the record's index."""
    delta, at = read_varint(data, at)
    if delta != index:
        raise _invalid(f"Record {index} of a batch has the offset delta {delta}.")
    return at


def _behind_headers(data: bytes | bytearray | memoryview, at: int, end: int) -> int:
    """The position after the headers of a record that ends at `end`."""
    count, at = read_varint(data, at)
    if not 0 <= count <= end - at:
        raise _invalid(f"Found invalid number of record headers {count}.")
    # One-byte varints are decoded inline: a megabyte may hold half a million headers.
    for _ in range(count):
        length, at = (ZIGZAG[b], at + 1) if (b := data[at]) < 0x80 else read_varint(data, at)
        if length < 0:
            raise _invalid(f"Invalid negative header key size {length}.")
        at += length
        length, at = (ZIGZAG[b], at + 1) if (b := data[at]) < 0x80 else read_varint(data, at)
        if length > 0:
            at += length
    return at


def _ends_early() -> KafkaError:
    return _invalid("Incorrect declared batch size, premature EOF reached.")


def _goes_on() -> KafkaError:
    return _invalid("Incorrect declared batch size, records still remaining in file.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
