"""How a connection that we open is secured: TLS around it, a login before its first request."""

from dataclasses import dataclass
from ssl import SSLContext
from typing import TYPE_CHECKING, Final, TypeAlias

from ..errors import ErrorCode

if TYPE_CHECKING:
    from ..sasl.client_mechanism import ClientMechanism

ClientContext: TypeAlias = SSLContext
"""What connections with TLS are opened with."""

REFUSED_LOGIN: Final = frozenset(
    (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    )
)
"""The errors of a login that is not let in, and would not be the next time."""


@dataclass(frozen=True, slots=True)
class ConnectionSecurity:
    """What both ends of a connection prove to each other; by default nothing."""

    ssl_context: ClientContext | None = None
    """What the connection is encrypted with; None for plain text."""
    login: "ClientMechanism | None" = None
    """What logs this client in by SASL; None where the listener lets in everybody."""
    may_retry_login: bool = False
    """Whether a refused login is a failed connection, to be tried again: a broker that has just
    started learns its users from the metadata log. Else it is an error of its own, as in Java."""

    @property
    def protocol(self) -> str:
        """The name of the listener's protocol (`SecurityProtocol`)."""
        transport = "PLAINTEXT" if self.ssl_context is None else "SSL"
        return transport if self.login is None else f"SASL_{transport}"


UNSECURED = ConnectionSecurity()
"""Plain text, without a login."""
