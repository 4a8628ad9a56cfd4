"""The definition of a steady load, shared by its scenario, its producer and its consumer.

Every record has a planned send time, fixed before the first is sent. Its first eight bytes are that
time, in nanoseconds of the machine's monotonic clock, and the next eight its number within its
partition: a consumer can compute its latency, and detect a missing record. Latencies count from the
planned time, so a stalled broker is charged for all records that should have been sent meanwhile,
not only for one in flight (coordinated omission).
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from .load_options import options_of, parsed

STAMP = Struct(">qq")
"""A record's planned send time, and its number within its partition."""

NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class SteadyLoad:
    """A load at a fixed rate; the warm-up seconds do not count.

    Records go to the partitions in turn. A record is at least as large as its stamp.
    """

    records_per_second: int
    record_bytes: int = 1024
    seconds: float = 10.0
    warm_up_seconds: float = 1.0
    partitions: int = 1
    acks: str = "all"
    linger_ms: int = 2
    batch_bytes: int = 131_072

    @property
    def records(self) -> int:
        """The number of all records, including the warm-up."""
        return int(self.records_per_second * (self.warm_up_seconds + self.seconds))

    @property
    def warm_up_ns(self) -> int:
        return int(self.warm_up_seconds * NANOSECONDS)

    def arguments(self) -> list[str]:
        """The load as options of a client's command line."""
        return options_of(self)


@dataclass(frozen=True, slots=True)
class SteadyOrder:
    """The task of a client process; a consumer starts at `offsets`, one per partition."""

    bootstrap: str
    topic: str
    load: SteadyLoad
    offsets: tuple[int, ...]


def parse_order(description: str | None, arguments: Sequence[str] | None = None) -> SteadyOrder:
    """Read a client's command line: `--bootstrap … --topic …` and a load."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of the broker")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--offsets", default="", help="where a consumer starts: 0,0,0")
    load, stated = parsed(parser, SteadyLoad, arguments)
    if load.record_bytes < STAMP.size:
        parser.error(f"a record has at least {STAMP.size} bytes")
    offsets = stated.pop("offsets")
    begin = tuple(int(offset) for offset in offsets.split(",") if offset) or (0,) * load.partitions
    if len(begin) != load.partitions:
        parser.error("--offsets needs one offset for each partition")
    return SteadyOrder(**stated, load=load, offsets=begin)
