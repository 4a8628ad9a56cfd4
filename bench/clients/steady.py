"""A load that keeps its pace, said once for its scenario, its producer and its reader.

Every record has a time at which it is meant to be sent, fixed before the first one is. It carries
that time in its first eight bytes, as nanoseconds of the machine's monotonic clock, and its number
within its partition in the next eight: whoever reads it can say how long it took, and that none is
missing. Latencies count from the time meant, so a broker that stalls is charged for all records
that should have been sent meanwhile, not only for one that was under way (coordinated omission).
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from struct import Struct
from typing import cast

STAMP = Struct(">qq")
"""When the record was meant to be sent, and its number within its partition."""

NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class SteadyLoad:
    """So many records a second of such a size, for so long; the first seconds do not count.

    Records go to the partitions in turn. A record has room for its stamp at least.
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
        """All of them, the first seconds' included."""
        return int(self.records_per_second * (self.warm_up_seconds + self.seconds))

    @property
    def warm_up_ns(self) -> int:
        return int(self.warm_up_seconds * NANOSECONDS)

    def arguments(self) -> list[str]:
        """As options of a client's command line."""
        options: list[str] = []
        for name, value in asdict(self).items():
            options += ["--" + name.replace("_", "-"), str(value)]
        return options


@dataclass(frozen=True, slots=True)
class SteadyOrder:
    """What a client process was asked to do; a reader begins at these offsets, one a partition."""

    bootstrap: str
    topic: str
    load: SteadyLoad
    offsets: tuple[int, ...]


def parse_order(
    program: str, description: str | None, arguments: Sequence[str] | None
) -> SteadyOrder:
    """Read a client's command line: `--bootstrap … --topic …` and a load."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of the broker")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--offsets", default="", help="where a reader begins: 0,0,0")
    parser.add_argument("--records-per-second", type=int, required=True)
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--warm-up-seconds", type=float, default=1.0)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--acks", default="all", choices=("1", "all"))
    parser.add_argument("--linger-ms", type=int, default=2)
    parser.add_argument("--batch-bytes", type=int, default=131_072)
    stated = cast("dict[str, str]", vars(parser.parse_args(arguments)))
    bootstrap, topic, offsets = (stated.pop(name) for name in ("bootstrap", "topic", "offsets"))
    load = SteadyLoad(**cast("dict[str, int]", stated))  # type: ignore[arg-type]  # of the types that the parser gives
    if load.record_bytes < STAMP.size:
        parser.error(f"a record has at least {STAMP.size} bytes")
    begin = tuple(int(offset) for offset in offsets.split(",") if offset) or (0,) * load.partitions
    if len(begin) != load.partitions:
        parser.error("one offset for each partition")
    return SteadyOrder(bootstrap, topic, load, begin)
