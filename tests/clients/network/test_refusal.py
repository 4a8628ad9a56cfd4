"""A broker may be newer than this client and still be understood."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.network.refusal import raise_for, refusal, topic_refusal


def test_a_known_code_is_that_error() -> None:
    assert refusal(3, "why").code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(3, "why").message == "why"


def test_a_code_of_the_future_is_an_unknown_server_error_that_tells_the_number() -> None:
    error = refusal(9999, "why")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error.message == "Error code 9999. why"


def test_no_error_raises_nothing() -> None:
    raise_for(0, "why")
    with pytest.raises(KafkaError):
        raise_for(1, "why")


def test_a_denied_topic_is_not_one_that_no_broker_serves() -> None:
    assert topic_refusal(29, "t", "No broker serves it.").message == (
        "Not authorized to access topic t."
    )
    assert topic_refusal(3, "t", "No broker serves it.").message == "No broker serves it."


def test_an_invalid_topic_name_is_reported() -> None:
    sentence = "The topic name 'a b' is invalid: it has 1 to 249 letters, digits, '.', '_' and '-'."
    assert topic_refusal(17, "a b", "No broker serves it.").message == sentence
