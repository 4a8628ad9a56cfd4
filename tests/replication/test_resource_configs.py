"""What a group's own properties must keep, beyond each one's range (`GroupConfig.validate`)."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.replication.resource_configs import validate_group_config

ROOMY = {
    f"group.{kind}.{least}": "1"
    for kind in ("consumer", "share", "streams")
    for least in ("min.session.timeout.ms", "min.heartbeat.interval.ms")
}
"""A broker that lets its groups have sessions and heartbeats as short as they like."""


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
@pytest.mark.parametrize(
    "stated",
    [
        {"session.timeout.ms": "5000"},
        {"session.timeout.ms": "2000"},
        {"session.timeout.ms": "6000", "heartbeat.interval.ms": "6000"},
    ],
)
def test_a_session_must_outlast_a_heartbeat(kind: str, stated: dict[str, str]) -> None:
    values = {f"{kind}.{name}": value for name, value in stated.items()}
    with pytest.raises(KafkaError) as refused:
        validate_group_config("g", values, ROOMY)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.message == (
        f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms"
    )


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_what_a_group_does_not_state_is_the_brokers(kind: str) -> None:
    validate_group_config("g", {f"{kind}.session.timeout.ms": "5001"}, ROOMY)
    calm = {**ROOMY, f"group.{kind}.heartbeat.interval.ms": "1000"}
    validate_group_config("g", {f"{kind}.session.timeout.ms": "2000"}, calm)
    with pytest.raises(KafkaError, match="must be greater than"):
        validate_group_config("g", {f"{kind}.session.timeout.ms": "1000"}, calm)
