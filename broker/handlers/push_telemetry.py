"""PushTelemetry (key 72), version 0: receives and counts the metrics of a client (KIP-714)."""

import asyncio

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.push_telemetry import (
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from ..metrics.telemetry import Push, client_traits
from ..request.context import BrokerContext, RequestContext

_COMPRESSION_TYPES = range(5)
_METRICS = "kafka.server:type=client-metrics"


def handle(
    broker: BrokerContext, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    """Check and count the push."""
    nbytes = len(request.metrics)
    try:
        broker.telemetry.push(
            broker.controller.image,
            request.client_instance_id,
            client_traits(context.client_id, context.client_host),
            Push(request.subscription_id, nbytes, request.terminating),
            asyncio.get_running_loop().time(),
        )
        if request.compression_type not in _COMPRESSION_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    broker.metrics.counter(f"{_METRICS},name=push-total").add()
    broker.metrics.counter(f"{_METRICS},name=push-bytes-total").add(nbytes)
    return PushTelemetryResponse()
