"""PLAIN (RFC 4616): a user name and its password in one message.

The error messages are those of Kafka's `PlainSaslServer`. A wrong password and an unknown user get
the same one, after the same time.
"""

from collections.abc import Mapping

from ...clients.sasl.secret import Secret
from .exchange import Proven, SaslFailure, Step

_TOKENS = 3
_NO_PASSWORD = Secret("")
"""What the password of an unknown user is compared with; an empty one is refused before."""


class PlainMechanism:
    """PLAIN with the users of a JAAS value, ``user_<name>="<password>"``."""

    name = "PLAIN"

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._users = users

    def begin(self) -> "PlainMechanism":
        """The mechanism itself: an exchange has a single message."""
        return self

    def evaluate(self, token: bytes) -> Step:
        """Check the only message. Raises SaslFailure."""
        try:
            fields = token.decode().split("\0", _TOKENS)
        except UnicodeDecodeError:
            raise SaslFailure("the message is not UTF-8") from None
        if len(fields) != _TOKENS:
            raise _failure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(fields)}")
        authorization_id, user, password = fields
        if not user:
            raise _failure("Authentication failed: username not specified")
        if not password:
            raise _failure("Authentication failed: password not specified")
        if not self._users.get(user, _NO_PASSWORD).equals(password):
            raise _failure("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise _failure(
                "Authentication failed: Client requested an authorization id that is different"
                " from username"
            )
        return Step(b"", Proven(user))


def _failure(text: str) -> SaslFailure:
    return SaslFailure(text, text)
