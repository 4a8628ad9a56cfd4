"""PushTelemetry (key 72): a client's own metrics, in OpenTelemetry's protobuf format (KIP-714)."""

from ...kafka_uuid import Uuid
from ..schema import Message, field, int8, int16, int32


class PushTelemetryRequest(Message, key=72, versions="0", flexible="0+"):
    """The metrics of one interval."""

    client_instance_id: Uuid = field("0+")
    subscription_id: int32 = field("0+")
    terminating: bool = field("0+")
    compression_type: int8 = field("0+")
    metrics: bytes = field("0+")


class PushTelemetryResponse(Message, key=72, versions="0", flexible="0+"):
    """Whether the metrics were accepted."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
