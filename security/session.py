"""What a connection has authenticated: its principal, how it was proven, and until when it holds.

Each connection begins as the anonymous session of its listener's protocol. A TLS handshake or a
SASL exchange that succeeds replaces the session (`KafkaPrincipal`, `DefaultKafkaPrincipalBuilder`).
"""

from typing import Literal, NamedTuple

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not been authenticated."""


class Session(NamedTuple):
    """The identity of a connection's client."""

    principal: str = ANONYMOUS
    """``User:<name>``, as ACLs and quotas name it."""
    protocol: SecurityProtocol = "PLAINTEXT"
    """The security protocol of the listener."""
    mechanism: str | None = None
    """The SASL mechanism that proved the principal; None without SASL."""
    expires_at: float | None = None
    """When the client must have authenticated again, in seconds of the loop's clock, if ever."""
    authority: int = 0
    """Grows with each change of the principal: what was decided under another number is void."""

    def authenticated(
        self, principal: str, mechanism: str | None, expires_at: float | None
    ) -> "Session":
        """The session after the client has proven who it is."""
        authority = self.authority + (principal != self.principal)
        return Session(principal, self.protocol, mechanism, expires_at, authority)


PLAINTEXT_SESSION = Session()
"""The session of every connection of a PLAINTEXT listener."""
