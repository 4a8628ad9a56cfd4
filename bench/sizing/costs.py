"""What one of each costs a broker: the constants of the model, and where each was measured.

Two cores of an AMD EPYC, 2026-11-26, beside other work (load 10 to 22): then CPU comes out up to a
half too high, and times several times too long. `fit.py` writes the numbers from another run
of `tierlog-bench run sizing`.
"""

from dataclasses import dataclass, field, fields
from typing import NamedTuple, cast


class Cost(NamedTuple):
    """One constant: its name in `Costs`, its value and unit, of what, and where it was measured."""

    name: str
    value: float
    unit: str
    meaning: str
    where: str


_IDLE = "sizing, idle clusters"
_LOAD = "sizing, one partition at a fixed rate"


def _cost(value: float, unit: str, meaning: str, where: str) -> float:
    """A field with that default."""
    return field(default=value, metadata={"unit": unit, "meaning": meaning, "where": where})


@dataclass(frozen=True, slots=True)
class Costs:
    """The constants by name; `TABLE` has them in rows."""

    broker_mib: float = _cost(
        35.2, "MiB", "a node that is broker and controller, without partitions", _IDLE
    )
    led_kib: float = _cost(6.68, "KiB", "a partition that the broker leads", _IDLE)
    followed_kib: float = _cost(7.87, "KiB", "a partition that it follows", _IDLE)
    elsewhere_kib: float = _cost(
        0.0586, "KiB", "a partition of the cluster without a replica there", _IDLE
    )
    busy_mib: float = _cost(4.97, "MiB", "buffers and code of a broker that serves clients", _LOAD)
    tier_mib: float = _cost(
        3.62, "MiB", "a broker with a tier, once it has tiered partitions", _IDLE
    )
    tiered_kib: float = _cost(
        19.5, "KiB", "a tiered partition, more than another, on its leader", _IDLE
    )
    connection_kib: float = _cost(
        3.55, "KiB", "an idle connection", "connections, 10,000 connections"
    )
    idle_broker_ms: float = _cost(7.31, "ms/s", "CPU of an idle node of three", _IDLE)
    idle_replica_ms: float = _cost(
        0.0298, "ms/s", "CPU of an idle followed replica, at either end", _IDLE
    )
    idle_fetcher_ms: float = _cost(
        0.387, "ms/s", "CPU of a follower's idle fetches, at either end", _IDLE
    )
    batch_us: float = _cost(84.6, "µs", "CPU of a Produce with one batch", _LOAD)
    produced_gb_s: float = _cost(2.29, "s/GB", "CPU of a leader for the bytes produced", _LOAD)
    fetch_answered_us: float = _cost(268.0, "µs", "CPU of a leader for a follower's fetch", _LOAD)
    fetch_us: float = _cost(445.0, "µs", "CPU of a follower for a fetch of its own", _LOAD)
    replicated_gb_s: float = _cost(
        0.0, "s/GB", "CPU of a leader for the bytes a follower gets", _LOAD
    )
    followed_gb_s: float = _cost(1.24, "s/GB", "CPU of a follower for the bytes it gets", _LOAD)
    read_us: float = _cost(159.0, "µs", "CPU of a consumer's fetch", _LOAD)
    read_gb_s: float = _cost(1.82, "s/GB", "CPU for the bytes that a consumer gets", _LOAD)
    copied_gb_s: float = _cost(
        1.33, "s/GB", "CPU of a leader for a copy to a folder", "copying, copy"
    )
    fetch_ms: float = _cost(
        3.19, "ms", "the least time between two fetches of one connection", _LOAD
    )
    files: float = _cost(17.7, "files", "a broker without partitions has open", _IDLE)
    files_per_segment: float = _cost(1.0, "files", "open a segment", _IDLE)
    metadata_bytes: float = _cost(51.3, "bytes", "of a partition in the metadata", _IDLE)
    metadata_bytes_per_replica: float = _cost(24.0, "bytes", "of each of its replicas there", _IDLE)
    start_s: float = _cost(1.97, "s", "a start after a clean stop, while others run", _IDLE)
    start_ms_per_replica: float = _cost(0.679, "ms", "more for each replica", _IDLE)
    failover_ms_per_partition: float = _cost(
        1.95, "ms", "until the last of them has a leader", _IDLE
    )


MEASURED = Costs()

TABLE = tuple(
    Cost(each.name, cast("float", each.default), **cast("dict[str, str]", each.metadata))
    for each in fields(MEASURED)
)
