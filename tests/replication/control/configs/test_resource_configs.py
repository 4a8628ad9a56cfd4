"""What a group's own properties must keep, beyond each one's range (`GroupConfig.validate`)."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.replication.control.configs.resource_configs import (
    client_patterns,
    validate_group_config,
)

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


def test_a_pattern_for_clients_is_one_that_is_matched_in_linear_time() -> None:
    assert client_patterns("client_id=(a+)+b")["client_id"].matches("aab")
    for pattern in (r"(a)\1", "a(?=b)", "[", "a{1001}", "a" * 32_768):
        with pytest.raises(KafkaError) as refused:
            client_patterns(f"client_id={pattern}")
        assert refused.value.code is ErrorCode.INVALID_CONFIG
        assert refused.value.message.startswith("Illegal client matching pattern: client_id=")
        assert len(refused.value.message) < 1_100


def test_of_many_patterns_for_one_subject_only_the_last_is_compiled() -> None:
    before = ",".join(f"client_id=[{number}" for number in range(2_000))
    patterns = client_patterns(f"{before},client_id=app-.*, client_id = web-.*")
    assert [*patterns] == ["client_id"]
    assert patterns["client_id"].matches("web-1")
    assert not patterns["client_id"].matches("app-1")
