"""Clients push the metrics that they were asked for, at the pace that they were told."""

from pathlib import Path

import pytest

from tierlog.broker.metrics.telemetry import CLIENTS_MAX, Push, Telemetry
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tierlog.replication.metadata.cluster_image import (
    ClusterImage,
    ConfigResource,
    ConfigResourceType,
)
from tierlog.tests import wire

from ...broker_process import BrokerThread, RawClient

KEYS = {71, 72}
ONE = Uuid(b"1" * 16)


def wanting(**values: str) -> ClusterImage:
    resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, "m")
    named = {name.replace("_", "."): value for name, value in values.items()}
    return ClusterImage("cluster", configs={resource: named})


WANTING = wanting(metrics="a.b", interval_ms="1000")


def refusal(
    telemetry: Telemetry,
    number: int,
    now_s: float,
    *,
    ends: bool = False,
    image: ClusterImage = WANTING,
) -> ErrorCode:
    try:
        telemetry.push(image, ONE, {}, Push(number, 10, ends), now_s)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_only_clients_that_match_are_asked() -> None:
    telemetry = Telemetry()
    image = wanting(metrics="a.b,c.d", interval_ms="1000", match="client_id=app-.*")
    asked = telemetry.subscribe(image, ONE, {"client_id": "app-7"}, 0.0)
    assert (asked.interval_ms, asked.metrics) == (1000, ("a.b", "c.d"))
    other = telemetry.subscribe(image, Uuid(b"2" * 16), {"client_id": "else"}, 0.0)
    assert (other.interval_ms, other.metrics) == (300_000, ())
    assert other.number != asked.number


def test_a_pattern_that_hangs_python_is_decided_at_once() -> None:
    """Python's `re` would take about 2 to the power of 45 steps for this."""
    image = wanting(metrics="a.b", match="client_id=(a+)+b")
    assert Telemetry().subscribe(image, ONE, {"client_id": "a" * 45}, 0.0).metrics == ()


def test_a_client_that_describes_itself_at_length_matches_no_pattern() -> None:
    image = wanting(metrics="a.b", match="client_id=.*a.{400}b")
    for length, metrics in ((1_024, ("a.b",)), (1_025, ())):
        client_id = "a" * (length - 1) + "b"
        assert Telemetry().subscribe(image, ONE, {"client_id": client_id}, 0.0).metrics == metrics


@pytest.mark.parametrize("pattern", [r"(a)\1", "a(?=b)", "a{1001}", "["])
def test_a_stored_pattern_that_cannot_be_used_matches_no_client(
    pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version read patterns with Python's `re` and has stored what RE2 refuses."""
    telemetry = Telemetry()
    image = wanting(metrics="a.b", match=f"client_id={pattern}")
    for client in (b"1" * 16, b"2" * 16):
        assert telemetry.subscribe(image, Uuid(client), {"client_id": "aa"}, 0.0).metrics == ()
    assert len(caplog.messages) == 1
    assert "Ignoring client metrics subscription" in caplog.text
    # What is stored may be altered.
    altered = wanting(metrics="a.b", match="client_id=a+")
    assert telemetry.subscribe(altered, ONE, {"client_id": "aa"}, 1.0).metrics == ("a.b",)


def test_who_comes_too_soon_is_held_off_and_the_last_push_ends_it() -> None:
    telemetry = Telemetry()
    number = telemetry.subscribe(WANTING, ONE, {}, 0.0).number
    assert refusal(telemetry, number, 0.1) == ErrorCode.NONE
    assert refusal(telemetry, number, 0.5) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with pytest.raises(KafkaError) as again:
        telemetry.subscribe(WANTING, ONE, {}, 0.9)
    assert again.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refusal(telemetry, number + 1, 1.2) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    # What has changed may be asked for at once.
    image = wanting(metrics="c.d", interval_ms="1000")
    changed = telemetry.subscribe(image, ONE, {}, 1.3)
    assert changed.metrics == ("c.d",)
    assert refusal(telemetry, changed.number, 1.4, ends=True, image=image) == ErrorCode.NONE
    assert refusal(telemetry, changed.number, 9.0, image=image) == ErrorCode.INVALID_REQUEST


def test_a_client_that_is_not_remembered_goes_on_to_push() -> None:
    """Clients take INVALID_REQUEST for the end: they would push no more until they are restarted.

    The broker may have been restarted, or others may have taken the client's place.
    """
    telemetry = Telemetry()
    number = telemetry.subscribe(WANTING, ONE, {}, 0.0).number
    for other in range(CLIENTS_MAX + 1):
        telemetry.subscribe(WANTING, Uuid(other.to_bytes(16, "big")), {}, 1.0)
    assert refusal(telemetry, number, 2.0) == ErrorCode.NONE
    assert refusal(telemetry, number, 2.1) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refusal(Telemetry(), number + 1, 2.0) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert refusal(Telemetry(), number, 2.0) == ErrorCode.NONE


def test_a_client_that_goes_on_to_push_learns_of_a_changed_subscription() -> None:
    """It asks again only after UNKNOWN_SUBSCRIPTION_ID, and then at once (`validateGetRequest`)."""
    changed = wanting(metrics="c.d", interval_ms="60000")
    for telemetry in (Telemetry(), restarted := Telemetry()):
        before = Telemetry() if telemetry is restarted else telemetry
        number = before.subscribe(WANTING, ONE, {}, 0.0).number
        assert refusal(before, number, 0.1) == ErrorCode.NONE
        error = refusal(telemetry, number, 0.5, image=changed)
        assert error == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        subscription = telemetry.subscribe(changed, ONE, {}, 0.6)
        assert subscription.metrics == ("c.d",)
        with pytest.raises(KafkaError):
            telemetry.subscribe(changed, ONE, {}, 0.7)
        assert refusal(telemetry, subscription.number, 61.0, image=changed) == ErrorCode.NONE


def announced(client: RawClient) -> set[int]:
    request = wire.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = client.ask(request, 4, wire.ApiVersionsResponse)
    return {each.api_key for each in answer.api_keys}


def test_pushes_are_announced_once_somebody_wants_them_and_counted(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        assert not KEYS & announced(client)
        config = AlterableConfig(name="metrics", value="a.b")
        resource = AlterConfigsResource(resource_type=16, resource_name="m", configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        assert not client.ask(request, 1, IncrementalAlterConfigsResponse).responses[0].error_code
        assert announced(client) >= KEYS
        response = client.ask(
            wire.GetTelemetrySubscriptionsRequest(), 0, wire.GetTelemetrySubscriptionsResponse
        )
        assert response.client_instance_id != ZERO_UUID
        assert response.requested_metrics == ["a.b"]
        assert response.accepted_compression_types == [4, 3, 1, 2]
        push = wire.PushTelemetryRequest(
            client_instance_id=response.client_instance_id,
            subscription_id=response.subscription_id,
            metrics=b"12345",
        )
        answers = [client.ask(push, 0, wire.PushTelemetryResponse).error_code for _ in range(2)]
        assert answers == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
        assert broker.broker is not None
        counted = dict(broker.broker.metrics.read())
        assert counted["kafka.server:type=client-metrics,name=push-total"] == 1
        assert counted["kafka.server:type=client-metrics,name=push-bytes-total"] == 5
