"""The states of a SASL connection, and every legal transition (`SaslServerAuthenticator`).

    VERSIONS_OR_HANDSHAKE --ApiVersions--> HANDSHAKE
    VERSIONS_OR_HANDSHAKE, HANDSHAKE --SaslHandshake--> TOKENS (version 1) or BARE_TOKENS (0)
    TOKENS --SaslAuthenticate--> TOKENS ... COMPLETE
    COMPLETE --SaslHandshake--> TOKENS                a session that ends is proven again (KIP-368)
    COMPLETE --SaslHandshake--> OTHER_MECHANISM       with another mechanism, which must fail

Whatever is not in the table ends the connection.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class SaslState(Enum):
    """What the authenticator waits for."""

    VERSIONS_OR_HANDSHAKE = "ApiVersions or SaslHandshake"
    HANDSHAKE = "SaslHandshake"
    TOKENS = "SaslAuthenticate"
    BARE_TOKENS = "tokens without a header"
    COMPLETE = "any request"
    OTHER_MECHANISM = "a token that fails"
    FAILED = "the end"


class SaslEvent(Enum):
    """What a frame turns out to be."""

    VERSIONS = "ApiVersions"
    VERSIONS_UNSUPPORTED = "ApiVersions in an unsupported version"
    VERSIONS_INVALID = "ApiVersions with an invalid software name"
    HANDSHAKE = "SaslHandshake; SaslAuthenticate will follow"
    BARE_HANDSHAKE = "SaslHandshake; tokens will follow"
    OTHER_MECHANISM = "SaslHandshake with another mechanism than that of the session"
    MECHANISM_DISABLED = "SaslHandshake with a mechanism that is not enabled"
    TOKEN = "a token that asks for another one"
    LAST_TOKEN = "the token that ends the proof"
    BAD_TOKEN = "a token that proves nothing"
    UNSUPPORTED = "SaslHandshake or SaslAuthenticate in an unsupported version"
    OTHER_REQUEST = "any other request"
    UNREADABLE = "a frame that is not a request"


_S, _E = SaslState, SaslEvent

TRANSITIONS: Mapping[tuple[SaslState, SaslEvent], SaslState] = MappingProxyType(
    {
        (_S.VERSIONS_OR_HANDSHAKE, _E.VERSIONS): _S.HANDSHAKE,
        (_S.VERSIONS_OR_HANDSHAKE, _E.VERSIONS_UNSUPPORTED): _S.VERSIONS_OR_HANDSHAKE,
        (_S.VERSIONS_OR_HANDSHAKE, _E.VERSIONS_INVALID): _S.VERSIONS_OR_HANDSHAKE,
        (_S.VERSIONS_OR_HANDSHAKE, _E.HANDSHAKE): _S.TOKENS,
        (_S.VERSIONS_OR_HANDSHAKE, _E.BARE_HANDSHAKE): _S.BARE_TOKENS,
        (_S.HANDSHAKE, _E.HANDSHAKE): _S.TOKENS,
        (_S.HANDSHAKE, _E.BARE_HANDSHAKE): _S.BARE_TOKENS,
        (_S.TOKENS, _E.TOKEN): _S.TOKENS,
        (_S.TOKENS, _E.LAST_TOKEN): _S.COMPLETE,
        (_S.BARE_TOKENS, _E.TOKEN): _S.BARE_TOKENS,
        (_S.BARE_TOKENS, _E.LAST_TOKEN): _S.COMPLETE,
        (_S.COMPLETE, _E.HANDSHAKE): _S.TOKENS,
        (_S.COMPLETE, _E.BARE_HANDSHAKE): _S.BARE_TOKENS,
        (_S.COMPLETE, _E.OTHER_MECHANISM): _S.OTHER_MECHANISM,
    }
)
"""Every pair that does not end in FAILED."""


def next_state(state: SaslState, event: SaslEvent) -> SaslState:
    """The state after an event."""
    return TRANSITIONS.get((state, event), SaslState.FAILED)
