r"""OAUTHBEARER as the server sees it (RFC 7628, KIP-255, `OAuthBearerSaslServer`).

    client: its token                         server: an empty message
    client: a token that is refused           server: {"status":"invalid_token"}
    client: \x01                              server: error 58 with the same text

A refused token thus takes two messages; a client that sends anything else than the byte 1 fails
at once. Kafka would let it try another token.
"""

from ..exchange import Proven, SaslFailure, Step
from .message import MalformedMessage, parse_message
from .token import TokenRefused, ValidateToken

OAUTHBEARER = "OAUTHBEARER"
_ACKNOWLEDGEMENT = b"\x01"


class OAuthBearerMechanism:
    """OAUTHBEARER with one way to validate tokens."""

    name = OAUTHBEARER

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate

    def begin(self) -> "OAuthBearerExchange":
        """Begin an exchange."""
        return OAuthBearerExchange(self._validate)


class OAuthBearerExchange:
    """One client's proof: a token, and one more message if it is refused."""

    def __init__(self, validate: ValidateToken) -> None:
        self._validate = validate
        self._refusal: TokenRefused | None = None

    def evaluate(self, token: bytes) -> Step:
        """Answer the client's token, or what it says to the refusal. Raises SaslFailure."""
        refusal = self._refusal
        if refusal is not None:
            if token == _ACKNOWLEDGEMENT:
                raise SaslFailure(refusal.cause, _error_json(refusal))
            raise SaslFailure(f"{refusal.cause}, and the client has not acknowledged it")
        try:
            message = parse_message(token)
        except MalformedMessage as error:
            raise SaslFailure(str(error)) from None
        try:
            valid = self._validate(message.token)
        except TokenRefused as error:
            self._refusal = error
            return Step(_error_json(error).encode())
        if message.authorization_id not in ("", valid.subject):
            raise SaslFailure(
                "the authorization id is not the subject of the token",
                "Authentication failed: Client requested an authorization id "
                f"({message.authorization_id}) that is different from the token's principal name "
                f"({valid.subject})",
            )
        return Step(b"", Proven(valid.subject, valid.expires_at_ms))


def _error_json(refusal: TokenRefused) -> str:
    """Kafka's text to the letter."""
    if refusal.required_scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{refusal.required_scope}"}}'
