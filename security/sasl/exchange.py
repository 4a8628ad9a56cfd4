"""What a SASL mechanism is to the authenticator: tokens in, tokens out (`SaslServer`).

An exchange makes one client's proof. It does no I/O and holds no more than one message.
"""

from typing import NamedTuple, Protocol


class SaslFailure(Exception):
    """The proof failed, and the exchange is over.

    `text` goes to the client if a mechanism has one to give; otherwise the client gets a message
    that names only the mechanism. `cause` is for the broker's log. Neither holds a secret.
    """

    def __init__(self, cause: str, text: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.text = text


class Proven(NamedTuple):
    """Who the client is."""

    name: str
    """The authorization id; the principal is ``User:<name>``."""
    expires_at_ms: float | None = None
    """The end of its credential, in milliseconds of the wall clock; None if it has none."""


class Step(NamedTuple):
    """The answer to one token."""

    token: bytes
    proven: Proven | None = None
    """Set with the last token."""


class Exchange(Protocol):
    """One client's proof."""

    def evaluate(self, token: bytes, /) -> Step:
        """Answer one token. Raises SaslFailure."""
        ...


class Mechanism(Protocol):
    """A mechanism of one listener."""

    @property
    def name(self) -> str:
        """Its name in a SaslHandshake."""
        ...

    def begin(self) -> Exchange:
        """Begin an exchange."""
        ...
