"""GetTelemetrySubscriptions (key 71): the metrics that a client should push (KIP-714)."""

from ...kafka_uuid import Uuid
from ..schema import Message, field, int8, int16, int32


class GetTelemetrySubscriptionsRequest(Message, key=71, versions="0", flexible="0+"):
    """The client's instance id; the zero id at first."""

    client_instance_id: Uuid = field("0+")


class GetTelemetrySubscriptionsResponse(Message, key=71, versions="0", flexible="0+"):
    """The metrics to push, the interval, and the client's instance id."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    client_instance_id: Uuid = field("0+")
    subscription_id: int32 = field("0+")
    accepted_compression_types: list[int8] = field("0+")
    push_interval_ms: int32 = field("0+")
    telemetry_max_bytes: int32 = field("0+")
    delta_temporality: bool = field("0+")
    requested_metrics: list[str] = field("0+")
