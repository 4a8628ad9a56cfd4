"""Remembers shapes of batches, so that a batch of a known shape need not be walked.

The result of a walk (`record_walk.py`) depends on few bytes: lengths, offset deltas, header counts
and the number of bytes in each timestamp. A producer of records of one size sends batch after batch
with the same bytes at the same places. A walk over such a batch would have the same result, so only
these bytes are compared, and the timestamp deltas, of one byte each, are checked.

A shape is stored as columns: in a run of records of one size (the stride), each length field recurs
one stride apart, so that one slice compares it in all of them. A shape is learned from a sound
batch only, and only after several batches of the same record count and size, because learning takes
as long as a few walks.
"""

from collections.abc import Callable
from operator import itemgetter
from struct import Struct
from typing import NamedTuple

from .batch import RecordBatch
from .layout import BATCH_OVERHEAD
from .record_walk import (
    AT_MOST,
    LATEST_OF_ONE_BYTE,
    delta_columns,
    header_lengths,
    until_longer_delta,
    varint_places,
)
from .varint import read_varint, read_varlong

_RECORDS_MAX = 256
"""Batches of more records are always walked; a shape takes about ten bytes a record."""
_KNOWN_MAX = 256
_COUNTED_MAX = 1_024
_LEARNED_AFTER = 8


class _Shape(NamedTuple):
    """The bytes that a sound batch must have at given places, and where its timestamps are."""

    parts_of: Callable[[memoryview], tuple[object, ...]]
    parts: tuple[object, ...]
    times: tuple[slice, ...]
    """Empty for a batch of one record: its time delta is among the parts, and is 0."""


class _Layout(NamedTuple):
    """The positions of a record's parts."""

    begin: int
    end: int
    time: int
    deltas: range
    lengths: list[int]


class KnownShapes:
    """The shapes of frequent batches, by record count and size."""

    __slots__ = ("_shapes", "_walks")

    def __init__(self) -> None:
        self._shapes: dict[tuple[int, int], tuple[_Shape, int]] = {}
        self._walks: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._shapes)

    def first_keyless(self, batch: RecordBatch) -> int | None:
        """The index of the first record without a key, -1 if all have one; None if the batch must
        be walked.

        Unless the result is None, the batch is sound and the header's largest timestamp is right.
        """
        shape_entry = self._shapes.get((batch.record_count, batch.size_in_bytes))
        if shape_entry is None:
            return None
        (parts_of, parts, times), first_keyless = shape_entry
        claimed = batch.max_timestamp - batch.base_timestamp
        view = batch.view
        if parts_of(view) != parts:
            return None
        if not times:
            return None if claimed else first_keyless
        if not 0 <= claimed <= LATEST_OF_ONE_BYTE:
            return None
        at_most, has_claimed = AT_MOST[claimed], False
        for place in times:
            column = view[place].tobytes()
            if column.translate(None, at_most):
                return None
            if claimed * 2 in column:
                has_claimed = True
        return first_keyless if has_claimed else None

    def remember(self, batch: RecordBatch, first_keyless: int) -> None:
        """Count a batch that a walk has found sound, and learn its shape once it is common."""
        key = batch.record_count, batch.size_in_bytes
        walks = self._walks.get(key, 0) + 1
        if walks >= _LEARNED_AFTER and 0 < batch.record_count <= _RECORDS_MAX:
            walks = 0
            shape = _shape_of(batch)
            if shape is not None:
                if len(self._shapes) >= _KNOWN_MAX:
                    self._shapes.clear()
                self._shapes[key] = shape, first_keyless
        if len(self._walks) >= _COUNTED_MAX:
            self._walks.clear()
        self._walks[key] = walks


def _shape_of(batch: RecordBatch) -> _Shape | None:
    """The shape of a sound batch; None if lengths differ in a run, or time deltas are too long."""
    view, count = batch.view, batch.record_count
    at, index = BATCH_OVERHEAD, 0
    if count == 1:
        return _shape_of_one(batch)
    places: list[slice] = []
    times: list[slice] = []
    while index < count:
        layout = _layout(view, at)
        alike = min(count - index, until_longer_delta(index, len(layout.deltas)))
        stride = layout.end - at
        end = at + stride * alike
        if not (alike and _has_one_layout(view, layout, index, alike)):
            return None
        times.append(slice(layout.time, end, stride))
        places += [slice(each, end, stride) for each in (*layout.lengths, *layout.deltas)]
        at, index = end, index + alike
    # There are always several places, so the getter returns a tuple.
    parts_of: Callable[[memoryview], tuple[memoryview, ...]] = itemgetter(*places)
    parts = tuple(memoryview(part.tobytes()) for part in parts_of(view))
    return _Shape(parts_of, parts, tuple(times))


def _shape_of_one(batch: RecordBatch) -> _Shape | None:
    """The shape of a batch of one record: all bytes except the key, the value and the content of
    headers. They include the time delta; None if that is not 0.
    """
    view = batch.view
    layout = _layout(view, BATCH_OVERHEAD)
    if batch.max_timestamp != batch.base_timestamp or view[layout.time]:
        return None
    form, at = "", 0
    for run in _runs(sorted((*layout.lengths, layout.time, *layout.deltas))):
        form += f"{run.start - at}x{len(run)}s"
        at = run.stop
    parts_of = Struct(form).unpack_from
    return _Shape(parts_of, parts_of(view), ())


def _has_one_layout(view: memoryview, layout: _Layout, index: int, alike: int) -> bool:
    """Whether `alike` records from `index` on have the lengths of `layout`, consecutive offset
    deltas, and time deltas of one byte.
    """
    stride = layout.end - layout.begin
    end = layout.begin + stride * alike
    columns = [view[place:end:stride].tobytes() for place in layout.lengths]
    deltas = tuple(view[place:end:stride].tobytes() for place in layout.deltas)
    return (
        all(column == column[:1] * alike for column in columns)
        and deltas == delta_columns(index, alike, len(deltas))
        and view[layout.time : end : stride].tobytes().isascii()
    )


def _layout(view: memoryview, begin: int) -> _Layout:
    """The layout of the sound record at `begin`."""
    lengths = [*varint_places(view, begin)]
    size, at = read_varint(view, begin)
    end, time = at + size, at + 1
    _, at = read_varlong(view, time)
    deltas = varint_places(view, at)
    at = deltas.stop
    for _ in ("key", "value"):
        lengths += varint_places(view, at)
        size, at = read_varint(view, at)
        at += max(size, 0)
    lengths += header_lengths(view, at)
    return _Layout(begin, end, time, deltas, lengths)


def _runs(places: list[int]) -> list[range]:
    """Join adjacent places into ranges."""
    runs: list[range] = []
    for place in places:
        begin = runs.pop().start if runs and runs[-1].stop == place else place
        runs.append(range(begin, place + 1))
    return runs
