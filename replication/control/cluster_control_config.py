"""What the active controller of a cluster of several processes does for brokers: its settings."""

from typing import NamedTuple


class ClusterControlConfig(NamedTuple):
    """Sessions of brokers, elections by the clock, records while nothing happens."""

    session_timeout_ms: int = 9_000
    """A broker without a heartbeat for this long is fenced (`broker.session.timeout.ms`)."""
    leader_imbalance_check_interval_s: int = 300
    """How often partitions are looked at that their preferred replica does not lead."""
    auto_leader_rebalance: bool = True
    """Whether those partitions go back to their preferred leaders."""
    max_idle_interval_ms: int = 500
    """How often a NoOpRecord is written while nothing changes; 0 for never (KIP-835)."""
    session_after_reset_ms: int | None = None
    """How long a session lasts at most after the connection of its broker's heartbeats was lost;
    None for as long as any other (`tierlog.broker.death.hint`)."""
    clean_restart: bool = False
    """Whether a broker that may stop has no session any longer, so that it registers again at
    once (`tierlog.broker.clean.restart`)."""
