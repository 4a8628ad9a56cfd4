"""Error codes are Kafka's, and errors say who they are."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError, ProtocolError


def test_codes_are_dense_from_unknown_server_error_on() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ValueError, match="134"):
        ErrorCode(134)


@pytest.mark.parametrize(
    ("code", "is_retriable"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.MESSAGE_TOO_LARGE, False),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
    ],
)
def test_clients_try_again_where_kafkas_do(code: ErrorCode, is_retriable: bool) -> None:
    assert code.is_retriable == is_retriable
    assert KafkaError(code).is_retriable == is_retriable


def test_an_error_prints_its_code_and_its_sentence() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, "Nobody knows this one.")
    assert str(error) == "INVALID_CONFIG: Nobody knows this one."
    assert str(KafkaError(ErrorCode.NOT_CONTROLLER)) == "NOT_CONTROLLER"


def test_a_protocol_error_is_an_invalid_request() -> None:
    error = ProtocolError("The request ends within its header")
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.INVALID_REQUEST
