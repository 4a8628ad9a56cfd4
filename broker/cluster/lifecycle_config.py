"""How a broker registers, sends heartbeats and stops: its settings."""

from typing import NamedTuple

from ..config.config_values import ConfigValues


class LifecycleConfig(NamedTuple):
    """The intervals of a broker's life in its cluster (Kafka's `BrokerLifecycleManager`)."""

    heartbeat_interval_ms: int = 2_000
    registration_timeout_ms: int = 60_000
    """A broker that is not registered this long after its start gives up."""
    controlled_shutdown: bool = True
    """Whether a stop waits until the controller has moved this broker's leaders away."""


def lifecycle_config(values: ConfigValues) -> LifecycleConfig:
    """The settings in a broker's properties. An interval below 1 ms counts as 1 ms."""
    return LifecycleConfig(
        heartbeat_interval_ms=max(values.integer("broker.heartbeat.interval.ms"), 1),
        registration_timeout_ms=values.integer("initial.broker.registration.timeout.ms"),
        controlled_shutdown=values.boolean("controlled.shutdown.enable"),
    )
