"""What one of each costs a broker: the constants of the model, and where each was measured.

Two cores of an AMD EPYC, 2026-11-26, beside other work (load 10 to 22): then CPU comes out up to a
half too high, and times several times too long. `fit.py` writes the numbers anew from another run
of `tierlog-bench run sizing`.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Cost(NamedTuple):
    """One constant: its name in `Costs`, its value and unit, of what, and where it was measured."""

    name: str
    value: float
    unit: str
    meaning: str
    where: str


_IDLE = "sizing, idle clusters"
_LOAD = "sizing, one partition at a fixed rate"

TABLE: tuple[Cost, ...] = (
    Cost(
        "broker_mib", 35.2, "MiB", "a node that is broker and controller, without partitions", _IDLE
    ),
    Cost("led_kib", 6.68, "KiB", "a partition that the broker leads", _IDLE),
    Cost("followed_kib", 7.87, "KiB", "a partition that it follows", _IDLE),
    Cost(
        "elsewhere_kib", 0.0586, "KiB", "a partition of the cluster without a replica there", _IDLE
    ),
    Cost("busy_mib", 4.97, "MiB", "buffers and code of a broker that serves clients", _LOAD),
    Cost("tier_mib", 3.62, "MiB", "a broker with a tier, once it has tiered partitions", _IDLE),
    Cost("tiered_kib", 19.5, "KiB", "a tiered partition, more than another, on its leader", _IDLE),
    Cost("connection_kib", 3.55, "KiB", "an idle connection", "connections, 10,000 connections"),
    Cost("idle_broker_ms", 7.31, "ms/s", "CPU of an idle node of three", _IDLE),
    Cost(
        "idle_replica_ms", 0.0298, "ms/s", "CPU of an idle followed replica, at either end", _IDLE
    ),
    Cost(
        "idle_fetcher_ms", 0.387, "ms/s", "CPU of a follower's idle fetches, at either end", _IDLE
    ),
    Cost("batch_us", 84.6, "µs", "CPU of a Produce with one batch", _LOAD),
    Cost("produced_gb_s", 2.29, "s/GB", "CPU of a leader for the bytes produced", _LOAD),
    Cost("fetch_answered_us", 268.0, "µs", "CPU of a leader for a follower's fetch", _LOAD),
    Cost("fetch_us", 445.0, "µs", "CPU of a follower for a fetch of its own", _LOAD),
    Cost("replicated_gb_s", 0.0, "s/GB", "CPU of a leader for the bytes a follower gets", _LOAD),
    Cost("followed_gb_s", 1.24, "s/GB", "CPU of a follower for the bytes it gets", _LOAD),
    Cost("read_us", 159.0, "µs", "CPU of a consumer's fetch", _LOAD),
    Cost("read_gb_s", 1.82, "s/GB", "CPU for the bytes that a consumer gets", _LOAD),
    Cost("copied_gb_s", 1.33, "s/GB", "CPU of a leader for a copy to a folder", "copying, copy"),
    Cost("fetch_ms", 3.19, "ms", "the least time between two fetches of one connection", _LOAD),
    Cost("files", 17.7, "files", "a broker without partitions has open", _IDLE),
    Cost("files_per_segment", 1.0, "files", "open a segment", _IDLE),
    Cost("metadata_bytes", 51.3, "bytes", "of a partition in the metadata", _IDLE),
    Cost("metadata_bytes_per_replica", 24.0, "bytes", "of each of its replicas there", _IDLE),
    Cost("start_s", 1.97, "s", "a start after a clean stop, while others run", _IDLE),
    Cost("start_ms_per_replica", 0.679, "ms", "more for each replica", _IDLE),
    Cost("failover_ms_per_partition", 1.95, "ms", "until the last of them has a leader", _IDLE),
)


@dataclass(frozen=True, slots=True)
class Costs:
    """The constants by name; `TABLE` has their units and meanings."""

    broker_mib: float
    led_kib: float
    followed_kib: float
    elsewhere_kib: float
    busy_mib: float
    tier_mib: float
    tiered_kib: float
    connection_kib: float
    idle_broker_ms: float
    idle_replica_ms: float
    idle_fetcher_ms: float
    batch_us: float
    produced_gb_s: float
    fetch_answered_us: float
    fetch_us: float
    replicated_gb_s: float
    followed_gb_s: float
    read_us: float
    read_gb_s: float
    copied_gb_s: float
    fetch_ms: float
    files: float
    files_per_segment: float
    metadata_bytes: float
    metadata_bytes_per_replica: float
    start_s: float
    start_ms_per_replica: float
    failover_ms_per_partition: float


MEASURED = Costs(**{cost.name: cost.value for cost in TABLE})
"""The constants of `TABLE`."""
