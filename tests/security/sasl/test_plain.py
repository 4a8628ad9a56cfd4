"""PLAIN: Kafka's `PlainSaslServerTest`, and the sentences of its failures."""

import pytest

from tierlog.clients.sasl.secret import Secret
from tierlog.security.sasl.exchange import Proven, SaslFailure, Step
from tierlog.security.sasl.plain import PlainMechanism

PLAIN = PlainMechanism({"alice": Secret("hidden"), "ö": Secret("ß"), "empty": Secret("")})


@pytest.mark.parametrize(
    ("message", "name"),
    [("\0alice\0hidden", "alice"), ("alice\0alice\0hidden", "alice"), ("\0ö\0ß", "ö")],
)
def test_the_right_password_proves_the_user(message: str, name: str) -> None:
    assert PLAIN.begin().evaluate(message.encode()) == Step(b"", Proven(name))


_WRONG = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("alice\0hidden", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        ("\0alice\0hid\0den", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("\0" * 9, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("\0\0hidden", "Authentication failed: username not specified"),
        ("\0alice\0", "Authentication failed: password not specified"),
        ("\0empty\0", "Authentication failed: password not specified"),
        ("\0alice\0wrong", _WRONG),
        ("\0nobody\0hidden", _WRONG),
        ("\0empty\0hidden", _WRONG),
        ("other\0alice\0wrong", _WRONG),
        (
            "other\0alice\0hidden",
            "Authentication failed: Client requested an authorization id that is different from"
            " username",
        ),
    ],
)
def test_each_failure_has_kafkas_sentence(message: str, text: str) -> None:
    with pytest.raises(SaslFailure) as raised:
        PLAIN.evaluate(message.encode())
    assert raised.value.text == text
    assert "hidden" not in repr(raised.value)


def test_bytes_that_are_no_text_fail_without_a_sentence() -> None:
    with pytest.raises(SaslFailure) as raised:
        PLAIN.evaluate(b"\0\xff\0hidden")
    assert raised.value.text is None
    assert raised.value.__cause__ is None
