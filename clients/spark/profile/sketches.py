"""Sums of fixed size over any number of records, which merge in any order.

    KeySketch     the most frequent keys, and about how many different ones there are
    RateSeries    records and bytes over time
    SizeCounts    how large records are, in powers of two

Frequent keys: a mergeable summary of Misra and Gries. When there are more than CAPACITY counters,
the count of the first one too many is taken from all of them, and those at nothing go. A count is
then too low by at most `error`, never too high, and no key with more than `error` records is
missing; `error` is at most a thousandth of all records.

Different keys: the CAPACITY smallest of their 64-bit hashes; how close these lie together says how
many there are, within some 3 percent (Bar-Yossef et al.). Fewer than CAPACITY are counted exactly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from ..reading.arrow_columns import Ints

CAPACITY = 1000
KEY_BYTES = 256
"""Longer keys count by their beginning."""

SERIES_STEPS = 400
"""A series has at most as many steps; they grow wider rather than more."""

_HASHES = 1 << 64


@dataclass(slots=True)
class KeySketch:
    """The keys of some records."""

    counts: dict[bytes, int] = field(default_factory=dict[bytes, int])
    error: int = 0
    records: int = 0
    """With a key."""
    nulls: int = 0
    """Records without a key."""
    hashes: list[int] = field(default_factory=list[int])
    """The smallest, ascending."""

    def add(self, counted: Mapping[bytes, int], nulls: int) -> None:
        """Some records, already counted by their key."""
        hashes = sorted({_hash(key) for key in counted})[:CAPACITY]
        self.merge(KeySketch(dict(counted), 0, sum(counted.values()), nulls, hashes))

    def merge(self, other: "KeySketch") -> None:
        """Other records as well."""
        for key, count in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
        self.error += other.error
        self.records += other.records
        self.nulls += other.nulls
        self.hashes = sorted({*self.hashes, *other.hashes})[:CAPACITY]
        if len(self.counts) > CAPACITY:
            too_many = sorted(self.counts.values(), reverse=True)[CAPACITY]
            self.error += too_many
            self.counts = {
                key: count - too_many for key, count in self.counts.items() if count > too_many
            }

    @property
    def distinct(self) -> int:
        """About how many different keys there are."""
        if len(self.hashes) < CAPACITY:
            return len(self.hashes)
        return min(round((CAPACITY - 1) * _HASHES / self.hashes[-1]), self.records)

    def top(self, number: int) -> list[tuple[bytes, int]]:
        """The most frequent keys, the most frequent first, with at least how many records."""
        ordered = sorted(self.counts.items(), key=lambda each: (-each[1], each[0]))
        return ordered[:number]


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")


@dataclass(slots=True)
class RateSeries:
    """Records and their bytes by time, in steps whose width is a power of two of seconds."""

    width_ms: int = 1000
    steps: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """(records, bytes) of the step that begins at its number times the width."""

    def add(self, times_ms: Ints, nbytes: Ints) -> None:
        """Some records, by their times; those without one, or before 1970, are left out."""
        is_timed = times_ms >= 0
        numbers, places = np.unique(times_ms[is_timed] // self.width_ms, return_inverse=True)
        records = np.bincount(places, minlength=len(numbers))
        sums = np.bincount(places, weights=nbytes[is_timed], minlength=len(numbers))
        counts_by_slot = zip(numbers.tolist(), records.tolist(), sums.tolist(), strict=True)
        self._take((number, int(count), int(size)) for number, count, size in counts_by_slot)

    def merge(self, other: "RateSeries") -> None:
        """Other records as well."""
        while self.width_ms < other.width_ms:
            self._widen()
        factor = self.width_ms // other.width_ms
        self._take((number // factor, *sums) for number, sums in other.steps.items())

    def _take(self, counts_by_slot: Iterable[tuple[int, int, int]]) -> None:
        for number, records, nbytes in counts_by_slot:
            before = self.steps.get(number, (0, 0))
            self.steps[number] = (before[0] + records, before[1] + nbytes)
        while self.steps and max(self.steps) - min(self.steps) >= SERIES_STEPS:
            self._widen()

    def _widen(self) -> None:
        steps, self.steps = self.steps, {}
        self.width_ms *= 2
        for number, (records, nbytes) in steps.items():
            before = self.steps.get(number // 2, (0, 0))
            self.steps[number // 2] = (before[0] + records, before[1] + nbytes)

    def rates(self) -> list[tuple[int, float, float]]:
        """(the time at which a step begins, records/s, bytes/s), empty steps in between too."""
        if not self.steps:
            return []
        seconds = self.width_ms / 1000
        return [
            (number * self.width_ms, records / seconds, nbytes / seconds)
            for number in range(min(self.steps), max(self.steps) + 1)
            for records, nbytes in [self.steps.get(number, (0, 0))]
        ]


@dataclass(slots=True)
class SizeCounts:
    """How many records have key and value of so many bytes together."""

    counts: dict[int, int] = field(default_factory=dict[int, int])
    """By the power of two that the size reaches; -1 for nothing at all."""

    def add(self, sizes: Ints) -> None:
        """Some records."""
        powers = np.frexp(sizes.astype(np.float64))[1] - 1
        distinct, numbers = np.unique(powers, return_counts=True)
        for power, number in zip(distinct.tolist(), numbers.tolist(), strict=True):
            self.counts[power] = self.counts.get(power, 0) + number

    def merge(self, other: "SizeCounts") -> None:
        """Other records as well."""
        for power, number in other.counts.items():
            self.counts[power] = self.counts.get(power, 0) + number
