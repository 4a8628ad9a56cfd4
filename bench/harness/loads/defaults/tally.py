"""Counting, offset checks and timing for the Python clients of the scenario `defaults`.

The clock starts when a client returns its first record, or its first list of records: the rate does
not include the start, metadata and joining the group, nor the records of that first call.
`first_record_s` is the time from the client's creation to the first record.
"""

import time
from typing import NamedTuple

from ..load import Load, LoadError

PATIENCE_S = 60.0
"""How long a client may go without a record before the run fails."""


class _First(NamedTuple):
    """When the first call returned records, and how many."""

    at_s: float
    records: int


class Tally:
    """Counts what one consumer reads and checks that each partition's offsets are 0, 1, 2, …"""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._next = [0] * load.partitions
        self._nbytes = 0
        self._began_s = self._last_s = time.perf_counter()
        self._first: _First | None = None
        self.records = 0

    @property
    def is_complete(self) -> bool:
        """Whether every record of the load was read."""
        return self.records >= self._load.records

    def take(self, partition: int, offset: int, nbytes: int) -> None:
        """Count one more record, with the size of its value. Raises LoadError."""
        if offset != self._next[partition]:
            expected = self._next[partition]
            raise LoadError(f"offset {offset} of partition {partition} came, not {expected}")
        self._next[partition] = offset + 1
        self._nbytes += nbytes
        self.records += 1

    def returned(self, is_any: bool) -> None:
        """Note that a call of the client has returned, with or without records.

        Raises LoadError after a minute without any.
        """
        now = time.perf_counter()
        if is_any:
            self._last_s = now
            if self._first is None:
                self._first = _First(now, self.records)
        elif now - self._last_s > PATIENCE_S:
            raise LoadError(f"nothing came after {self.records} of {self._load.records}")

    def figures(self) -> dict[str, float]:
        """The rate's seconds and records. Raises LoadError if bytes or records are wrong."""
        if (self.records, self._nbytes) != (self._load.records, self._load.total_bytes):
            raise LoadError(f"{self.records} records came, with {self._nbytes} bytes of values")
        if self._first is None or self._first.records == self.records:
            raise LoadError(f"{self.records} records came at once: there is no rate")
        return {
            "seconds": self._last_s - self._first.at_s,
            "records": self.records - self._first.records,
            "first_record_s": self._first.at_s - self._began_s,
        }


class Acknowledged:
    """Counts a producer's acknowledged records; the first acknowledgement starts the clock."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._first: _First | None = None
        self._began_s = time.perf_counter()
        self.records = 0
        self.errors: list[str] = []

    def started(self) -> None:
        """Start the clock: the first record was sent alone, and has been acknowledged."""
        self._first = _First(time.perf_counter(), self.records)

    def figures(self) -> dict[str, float]:
        """The rate, once all records are acknowledged. Raises LoadError if one was not."""
        now = time.perf_counter()
        missing = self._load.records - self.records
        if missing or self.errors or self._first is None:
            raise LoadError(f"{missing} records not acknowledged: {self.errors[:1]}")
        return {
            "seconds": now - self._first.at_s,
            "records": self.records - self._first.records,
            "first_record_s": self._first.at_s - self._began_s,
        }
