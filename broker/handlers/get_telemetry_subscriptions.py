"""GetTelemetrySubscriptions (key 71), version 0: the metrics that a client is to push (KIP-714).

The API is announced only while there are subscriptions; in Kafka, only with a receiver plugin.
"""

import asyncio

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import ZERO_UUID
from ...clients.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ..metrics.telemetry import MAX_BYTES, client_traits
from ..request.context import BrokerContext, RequestContext

# zstd, lz4, gzip, snappy: in Kafka's order of preference.
_COMPRESSION_TYPES = (4, 3, 1, 2)


def handle(
    broker: BrokerContext, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Return the client's subscription; a new client also gets an id."""
    client = request.client_instance_id
    if client == ZERO_UUID:
        client = broker.environment.random_uuid()
    traits = client_traits(context.client_id, context.client_host)
    now_s = asyncio.get_running_loop().time()
    try:
        subscription = broker.telemetry.subscribe(broker.controller.image, client, traits, now_s)
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client,
        subscription_id=subscription.number,
        accepted_compression_types=list(_COMPRESSION_TYPES),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=MAX_BYTES,
        delta_temporality=True,
        requested_metrics=["" if metric == "*" else metric for metric in subscription.metrics],
    )
