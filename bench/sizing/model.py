"""A model of what a cluster costs: what each broker needs, from a plan of the cluster.

    a plan (brokers, partitions, megabytes a second, …)
      -> the share of one broker (partitions led and followed, batches and fetches a second)
      -> its needs (memory, CPU, disk, network, open files, times)

The costs of one partition, one batch, one fetch and one gigabyte were measured (`costs.py`); the
rest is arithmetic. `tierlog-bench run sizing` starts clusters and prints model ÷ measured.

A fetch is answered as soon as there is something new. So a follower or consumer of a quiet broker
fetches once a batch, and one of a busy broker gets several batches at a time: where `n` batches a
second come and a fetch takes at least `t` seconds, there are `n / (1 + n t)` fetches a second.
"""

import math
from dataclasses import dataclass, replace

from .costs import Costs

_KIB = 1024
_MIB = 1 << 20
_MEGABYTE = 10**6
_GIGABYTE = 10**9
_HOUR_S = 3600.0
_BROKERS_MAX = 1_000
DEATH_HINT_S = 2.25
"""When a dead broker is fenced, with `tierlog.broker.death.hint`; else its session has to end."""

CORES_MAX = 0.7
"""How much of a core a broker may use: one event loop has one core, and answers late near it."""


class PlanError(Exception):
    """A cluster like this cannot be; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A cluster, and what its clients do.

    `mb_per_s` is what all producers send, in records of which a batch has `batch_kib`; each byte is
    read `readers` times. With `local_retention_hours` all topics are tiered.
    """

    brokers: int
    partitions: int
    replication_factor: int = 3
    mb_per_s: float = 0.0
    batch_kib: float = 16.0
    readers: float = 1.0
    retention_hours: float = 168.0
    local_retention_hours: float | None = None
    connections: int = 0
    segment_mib: float = 1024.0

    def __post_init__(self) -> None:
        """Raises PlanError."""
        if not 1 <= self.brokers <= _BROKERS_MAX:
            raise PlanError(f"{self.brokers} brokers: the model is for 1 to {_BROKERS_MAX}.")
        if not 1 <= self.replication_factor <= self.brokers:
            raise PlanError(
                f"{self.replication_factor} replicas need as many brokers, and there are "
                f"{self.brokers}."
            )
        if self.partitions < 0 or self.connections < 0:
            raise PlanError("There cannot be less than no partition and no connection.")
        rates = (self.mb_per_s, self.readers, self.retention_hours, self.local_hours)
        sizes = (self.batch_kib, self.segment_mib)
        if not all(map(math.isfinite, (*rates, *sizes))) or min(rates) < 0 or min(sizes) <= 0:
            raise PlanError("Rates, sizes and times are numbers above zero.")

    @property
    def is_tiered(self) -> bool:
        return self.local_retention_hours is not None

    @property
    def local_hours(self) -> float:
        """The hours that records stay on the brokers' disks."""
        stated = self.local_retention_hours
        return self.retention_hours if stated is None else min(stated, self.retention_hours)

    @property
    def tier_gb(self) -> float:
        """Gigabytes in the tier: one copy of everything."""
        return self.mb_per_s * self.retention_hours * _HOUR_S / 1000 if self.is_tiered else 0.0


@dataclass(frozen=True, slots=True)
class Share:
    """What one broker does. Rates are per second; megabytes are 10⁶ bytes of records.

    `elsewhere` are partitions of the cluster without a replica here, which are in its metadata.
    `followers` are brokers that fetch from it, `leaders` those that it fetches from.
    """

    led: float = 0
    followed: float = 0
    elsewhere: float = 0
    produced_mb: float = 0
    batches: float = 0
    followers: float = 0
    copies: float = 0
    """How many followers get each produced byte: the replication factor without the leader."""
    leaders: float = 0
    followed_mb: float = 0
    followed_batches: float = 0
    readers: float = 0
    """Consumers, each of which reads everything that is produced here."""
    connections: float = 0
    is_tiered: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """What one broker needs; CPU in cores, rates in megabytes (10⁶) a second."""

    memory_mib: float
    cpu_cores: float
    idle_cores: float
    """The part of `cpu_cores` that an idle broker with these partitions uses as well."""
    network_in_mb: float
    network_out_mb: float
    disk_written_mb: float
    start_s: float


def share_of(plan: Plan, down: int = 0) -> Share:
    """The share of the broker with the most work, while so many brokers are down.

    Replicas are spread evenly, as new topics are. The replicas of a broker that is down stay where
    they are: the others lead more, follow as much less and write the same. Raises PlanError.
    """
    up = plan.brokers - down
    if up < 1:
        raise PlanError("Then no broker would be left.")
    replicas = _spread(plan.partitions * plan.replication_factor, plan.brokers)
    led = min(_spread(plan.partitions, up), replicas)
    followed = replicas - led
    part = led / plan.partitions if plan.partitions else 0.0
    produced = plan.mb_per_s * part
    batches = produced * _MEGABYTE / (plan.batch_kib * _KIB)
    # Replicas on brokers that are down are not fetched for.
    copies = (plan.replication_factor - 1) * (up - 1) / max(1, plan.brokers - 1)
    follows = followed / plan.partitions if plan.partitions else 0.0
    peers = min(up - 1, led * (plan.replication_factor - 1)) if plan.partitions else 0
    return Share(
        led=led,
        followed=followed,
        elsewhere=plan.partitions - replicas,
        produced_mb=produced,
        batches=batches,
        followers=peers,
        copies=copies,
        leaders=min(up - 1, followed),
        followed_mb=plan.mb_per_s * follows,
        followed_batches=plan.mb_per_s * follows * _MEGABYTE / (plan.batch_kib * _KIB),
        readers=plan.readers,
        connections=plan.connections / up,
        is_tiered=plan.is_tiered,
    )


def _spread(count: float, brokers: int) -> int:
    return -int(-count // brokers)


def fetches_per_s(batches: float, peers: float, costs: Costs) -> float:
    """Fetches a second by all peers, among which these batches a second are shared out evenly."""
    if not peers:
        return 0.0
    each = batches / peers
    return peers * each / (1 + each * costs.fetch_ms / 1000)


def needs_of(share: Share, costs: Costs) -> Needs:
    """What a broker with this share needs, by the costs of one of each."""
    idle = _idle_cores(share, costs)
    return Needs(
        memory_mib=_memory_mib(share, costs),
        cpu_cores=idle + _busy_cores(share, costs),
        idle_cores=idle,
        network_in_mb=share.produced_mb + share.followed_mb,
        network_out_mb=share.produced_mb * (share.copies + share.readers + int(share.is_tiered)),
        disk_written_mb=share.produced_mb + share.followed_mb,
        start_s=costs.start_s + (share.led + share.followed) * costs.start_ms_per_replica / 1000,
    )


def _memory_mib(share: Share, costs: Costs) -> float:
    partitions = (
        share.led * costs.led_kib
        + share.followed * costs.followed_kib
        + share.elsewhere * costs.elsewhere_kib
    )
    memory = costs.broker_mib + (partitions + share.connections * costs.connection_kib) / _KIB
    if share.produced_mb or share.followed_mb:
        memory += costs.busy_mib
    if share.is_tiered:
        memory += costs.tier_mib + share.led * costs.tiered_kib / _KIB
    return memory


def _idle_cores(share: Share, costs: Costs) -> float:
    milliseconds = (
        costs.idle_broker_ms
        + (share.led * share.copies + share.followed) * costs.idle_replica_ms
        + (share.followers + share.leaders) * costs.idle_fetcher_ms
    )
    return milliseconds / 1000


def _busy_cores(share: Share, costs: Costs) -> float:
    produced_gb = share.produced_mb / 1000
    followed_gb = share.followed_mb / 1000
    # Each produced batch goes to `copies` of the followers, and to every reader.
    answered = fetches_per_s(share.batches * share.copies, share.followers, costs)
    fetched = fetches_per_s(share.followed_batches, share.leaders, costs)
    read = fetches_per_s(share.batches * share.readers, share.readers, costs)
    microseconds = (
        share.batches * costs.batch_us
        + answered * costs.fetch_answered_us
        + fetched * costs.fetch_us
        + read * costs.read_us
    )
    seconds = (
        produced_gb * costs.produced_gb_s
        + produced_gb * share.copies * costs.replicated_gb_s
        + followed_gb * costs.followed_gb_s
        + produced_gb * share.readers * costs.read_gb_s
    )
    if share.is_tiered:
        seconds += produced_gb * costs.copied_gb_s
    return microseconds / 1e6 + seconds


def disk_gb(plan: Plan) -> float:
    """Gigabytes of records on each broker's disk."""
    replicated = plan.mb_per_s * plan.replication_factor / plan.brokers
    return replicated * plan.local_hours * _HOUR_S / 1000


def open_files(plan: Plan, costs: Costs) -> float:
    """Files that a broker has open, if its limit allows it: idle ones are closed first."""
    replicas = _spread(plan.partitions * plan.replication_factor, plan.brokers)
    segments = replicas + disk_gb(plan) * _GIGABYTE / (plan.segment_mib * _MIB)
    connections = plan.connections / plan.brokers + 2 * (plan.brokers - 1)
    return costs.files + segments * costs.files_per_segment + connections


def metadata_mb(plan: Plan, costs: Costs) -> float:
    """Megabytes of a snapshot of the metadata, which every node has on its disk."""
    each = costs.metadata_bytes + plan.replication_factor * costs.metadata_bytes_per_replica
    return plan.partitions * each / _MEGABYTE


def failover_s(plan: Plan, costs: Costs, detected_s: float) -> float:
    """Seconds from the death of a broker until the last of its partitions has another leader.

    `detected_s` is the time until the broker is fenced.
    """
    led = _spread(plan.partitions, plan.brokers)
    return detected_s + led * costs.failover_ms_per_partition / 1000


def fewest_brokers(plan: Plan, costs: Costs) -> int | None:
    """The fewest brokers for this load, so that with one of them down no other uses more than
    `CORES_MAX` of a core; None if that needs more than the model is for."""
    least = plan.replication_factor + (0 if plan.replication_factor > 1 else 1)
    for brokers in range(least, _BROKERS_MAX + 1):
        share = share_of(replace(plan, brokers=brokers), down=1)
        if needs_of(share, costs).cpu_cores <= CORES_MAX:
            return brokers
    return None
