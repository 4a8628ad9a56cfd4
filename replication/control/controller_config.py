"""The node's settings for the controller, and the `Decision` type.

The decisions themselves (`topic_control.py`, `partition_control.py`, `config_control.py`,
`broker_control.py`) are pure functions of an image, a request and this configuration.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from ...clients.protocol.schema import Message
from ...storage.config import LogConfig
from ..metadata.decision import Decision as Decision
from ..metadata.metadata_records import MIN_ISR_CONFIG

RECORDS_PER_OPERATION_MAX = 10_000
"""The most metadata records one request may write, and the most partitions it may create."""

RECORDS_PER_PART = 256
"""The records of a change that is one part of a longer step; the event loop serves others between
two parts."""

PartitionCharge: TypeAlias = Callable[[int], None]
"""Charges created or deleted partitions to the client's quota.

Raises KafkaError(THROTTLING_QUOTA_EXCEEDED).
"""


def no_charge(_: int) -> None:
    """Charge nothing, for a client without a quota."""


class ConfigSource(IntEnum):
    """Where an effective value comes from (`DescribeConfigsResponse.ConfigSource`)."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """The node's settings that affect decisions."""

    node_id: int = 0
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    remote_storage_system_enabled: bool = False
    # The value of remote.storage.enable for new topics that don't set it.
    remote_storage_default: bool = False
    # Clients cannot create partitions beyond this total.
    partitions_max: int = 2**31 - 1
    # The defaults for properties that neither the topic nor the cluster sets.
    log_config: LogConfig = field(default_factory=LogConfig)
    # The minimum retention of the topic that holds the remote tier's metadata; None if this
    # cluster has no such topic.
    tier_metadata_retention_ms: int | None = None
    # The broker properties set in the node's file, by name.
    static_config: Mapping[str, str] = field(default_factory=dict[str, str])
    # The first records of a new cluster, as the directory was formatted; None if it says nothing.
    bootstrap: Sequence[Message] | None = None

    @property
    def static_min_isr(self) -> str:
        """`min.insync.replicas` of the node's file."""
        return self.static_config.get(MIN_ISR_CONFIG, "1").strip()
