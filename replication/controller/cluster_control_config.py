"""The settings of what the active controller does for its brokers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterControlConfig:
    """Timing of sessions, elections and no-op records; the defaults are Kafka's."""

    # broker.session.timeout.ms
    session_timeout_ms: int = 9_000
    # leader.imbalance.check.interval.seconds
    leader_imbalance_check_interval_s: int = 300
    # auto.leader.rebalance.enable
    auto_leader_rebalance: bool = True
    # metadata.max.idle.interval.ms; 0 for no no-op records.
    max_idle_interval_ms: int = 500
