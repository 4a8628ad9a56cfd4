"""BrokerHeartbeat (key 63): a broker is alive, and wants to serve, or to stop (KIP-631).

Versions: 1 failed log directories (KIP-858); 2 log directories that get no new replicas.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, field, int16, int32, int64


class BrokerHeartbeatRequest(Message, key=63, versions="0-2", flexible="0+"):
    """How far the broker has read the metadata log, and what it wants."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    current_metadata_offset: int64 = field("0+")
    want_fence: bool = field("0+")
    want_shut_down: bool = field("0+")
    offline_log_dirs: list[Uuid] = field("1+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = field("2+", nullable="2+", tag=1, default=None)


class BrokerHeartbeatResponse(Message, key=63, versions="0-2", flexible="0+"):
    """What the controller has decided about the broker."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    is_caught_up: bool = field("0+")
    is_fenced: bool = field("0+", default=True)
    should_shut_down: bool = field("0+")
