"""How long each turn of the event loop holds it, as processor time of its thread."""

import asyncio
import gc
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tierlog.replication.metadata.metadata_records import (
    PartitionChangeRecord,
    decode_record,
    encode_record,
)


class Turn(NamedTuple):
    """One callback of the loop."""

    cpu_ms: float
    name: str


_RECORDS = 100
_US_A_RECORD = 6
"""What it takes to decode one record of the metadata log while nothing else runs."""


def slowness() -> float:
    """How many times slower this machine is now; at least 1.

    What shares a core takes its caches and half of its units: processor time, too, gets longer.
    """
    record = encode_record(PartitionChangeRecord(partition_id=1, isr=[1, 2, 3], leader=2))
    times: list[float] = []
    for _ in range(3):
        began = time.thread_time()
        for _ in range(_RECORDS):
            decode_record(record)
        times.append(1e6 * (time.thread_time() - began) / _RECORDS)
    return max(1.0, sorted(times)[1] / _US_A_RECORD)


class Turns:
    """The turns of one loop, while they are measured."""

    def __init__(self) -> None:
        self.all: list[Turn] = []

    def take_longest(self) -> Turn:
        """The longest turn since the last call."""
        turns, self.all = self.all, []
        return max(turns, default=Turn(0, "none"))


@contextmanager
def measured_turns() -> Generator[Turns]:
    """Measure all turns. The garbage collector waits: when it runs is no property of a turn."""
    turns, run = Turns(), asyncio.Handle._run

    def measured(self: asyncio.Handle) -> None:
        name = repr(self)
        began = time.thread_time()
        run(self)
        turns.all.append(Turn(1_000 * (time.thread_time() - began), name))

    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(asyncio.Handle, "_run", measured)
            yield turns
    finally:
        gc.enable()
