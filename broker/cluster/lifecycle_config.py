"""The settings of a broker's life in its cluster."""

from typing import NamedTuple


class LifecycleConfig(NamedTuple):
    """How a broker registers, sends heartbeats and stops."""

    heartbeat_interval_ms: int = 2_000
    """`broker.heartbeat.interval.ms`."""
    registration_timeout_ms: int = 60_000
    """`initial.broker.registration.timeout.ms`."""
    controlled_shutdown: bool = True
    """`controlled.shutdown.enable`."""
