"""Fixed-size sketches of any number of records, which merge in any order.

    KeySketch     the most frequent keys, and an estimate of the number of distinct keys
    RateSeries    records and bytes over time
    SizeCounts    record sizes, in powers of two

Frequent keys: a mergeable Misra-Gries summary. If there are more than CAPACITY counters, the
(CAPACITY + 1)th largest count is subtracted from all of them, and counters at zero or below are
dropped. A count is then too low by at most `error`, never too high, and no key with more than
`error` records is missing; `error` is at most a thousandth of all records.

Distinct keys: the CAPACITY smallest 64-bit hashes of keys are kept. The largest of these gives the
number of keys within about 3 percent (Bar-Yossef et al.). Fewer keys than CAPACITY are counted
exactly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from ...reading.arrow_columns import Ints

CAPACITY = 1000
KEY_BYTES = 256
"""Longer keys are counted by their prefix of this length."""

SERIES_STEPS = 400
"""The most steps of a series, from the first to the last; beyond that, steps are made wider."""

_HASHES = 1 << 64


@dataclass(slots=True)
class KeySketch:
    """A sketch of the keys of some records."""

    counts: dict[bytes, int] = field(default_factory=dict[bytes, int])
    error: int = 0
    records: int = 0
    """Records with a key."""
    nulls: int = 0
    """Records without a key."""
    hashes: list[int] = field(default_factory=list[int])
    """The smallest hashes, ascending."""

    def add(self, counted: Mapping[bytes, int], nulls: int) -> None:
        """Add some records, already counted by key."""
        hashes = sorted({_hash(key) for key in counted})[:CAPACITY]
        self.merge(KeySketch(dict(counted), 0, sum(counted.values()), nulls, hashes))

    def merge(self, other: "KeySketch") -> None:
        """Add the sketch of other records."""
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
        """The approximate number of distinct keys."""
        if len(self.hashes) < CAPACITY:
            return len(self.hashes)
        return min(round((CAPACITY - 1) * _HASHES / self.hashes[-1]), self.records)

    def top(self, number: int) -> list[tuple[bytes, int]]:
        """The most frequent keys, in order, with counts that may be too low by `error`."""
        ordered = sorted(self.counts.items(), key=lambda each: (-each[1], each[0]))
        return ordered[:number]


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")


@dataclass(slots=True)
class RateSeries:
    """Records and their bytes over time, in steps whose width in seconds is a power of two."""

    width_ms: int = 1000
    steps: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """(records, bytes) by step number; a step begins at its number times the width."""

    def add(self, times_ms: Ints, nbytes: Ints) -> None:
        """Add some records; those without a timestamp, or before 1970, are left out."""
        is_timed = times_ms >= 0
        numbers, places = np.unique(times_ms[is_timed] // self.width_ms, return_inverse=True)
        records = np.bincount(places, minlength=len(numbers))
        sums = np.bincount(places, weights=nbytes[is_timed], minlength=len(numbers))
        counts_by_slot = zip(numbers.tolist(), records.tolist(), sums.tolist(), strict=True)
        self._take((number, int(count), int(size)) for number, count, size in counts_by_slot)

    def merge(self, other: "RateSeries") -> None:
        """Add the series of other records."""
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
        """(start time of a step, records/s, bytes/s), including empty steps in between."""
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
    """The number of records by the size of key and value together."""

    counts: dict[int, int] = field(default_factory=dict[int, int])
    """Keyed by n, where 2^n is the largest power of two up to the size; -1 for empty records."""

    def add(self, sizes: Ints) -> None:
        """Add some records, by their sizes."""
        powers = np.frexp(sizes.astype(np.float64))[1] - 1
        distinct, numbers = np.unique(powers, return_counts=True)
        for power, number in zip(distinct.tolist(), numbers.tolist(), strict=True):
            self.counts[power] = self.counts.get(power, 0) + number

    def merge(self, other: "SizeCounts") -> None:
        """Add the counts of other records."""
        for power, number in other.counts.items():
            self.counts[power] = self.counts.get(power, 0) + number
