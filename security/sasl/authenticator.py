"""One connection's authentication without I/O: a frame in, an answer out.

    HANDSHAKE_OR_VERSIONS -> HANDSHAKE -> tokens -> COMPLETE -> ... -> re-authentication

The table is in `transitions.py`. Frames arrive one at a time, each after the answer to the last.
Who owns the connection sends the answers, delays those of failures, and closes after one.
Messages for clients are Kafka's (`SaslServerAuthenticator`); no reason holds a token.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.protocol.api import ApiKey
from ...clients.protocol.header import RequestHeader
from ...clients.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ...clients.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ...clients.protocol.schema import Chunk
from ..session import Session
from .exchange import Exchange, Mechanism, Proven, SaslFailure
from .requests import (
    SaslRequest,
    bare_answer,
    failed_answer,
    handshake_answer,
    illegal_state_answer,
    is_named_well,
    is_readable,
    read_request,
    token_answer,
)
from .transitions import SaslEvent, SaslState, next_state

REAUTHENTICATION_INTERVAL_S = 1.0
"""Between two re-authentications of a connection (`KafkaChannel`)."""

LIFETIME_MAX_MS = (1 << 63) - 1
"""The longest lifetime that the response can hold; a longer one is cut to this."""

_MECHANISM_NAME = re.compile(r"[A-Z0-9_-]{1,20}")
"""What a name of a mechanism may be (RFC 4422). Anything else may be a password in its place."""


class Now(NamedTuple):
    """The time of a frame."""

    loop_s: float
    """Of the loop's clock, in seconds."""
    wall_ms: float
    """Of the wall clock, in milliseconds."""


class Reply(NamedTuple):
    """What becomes of a frame."""

    answer: Sequence[Chunk] = ()
    asks_for_versions: bool = False
    """Whether the dispatch answers it, an ApiVersions request like any other."""
    failure: str = ""
    """Why the connection is closed after the answer; empty if it stays open."""
    is_delayed: bool = False
    """Whether the failed client has to wait for its answer, or for the close."""


class OfferedMechanism(NamedTuple):
    """A mechanism that a listener has enabled."""

    mechanism: Mechanism
    max_reauth_ms: int = 0
    """How long a session lasts at most (`connections.max.reauth.ms`); 0: for ever."""


class SaslAuthenticator:
    """The authentication of one connection."""

    __slots__ = (
        "_begun_at",
        "_exchange",
        "_is_again",
        "_mechanism",
        "_offered",
        "is_lifetime_known",
        "session",
        "state",
    )

    def __init__(self, session: Session, offered: Mapping[str, OfferedMechanism]) -> None:
        """`offered` by the mechanisms' names, in the order in which clients read them."""
        self.session = session
        self.state = SaslState.VERSIONS_OR_HANDSHAKE
        self._offered = offered
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._begun_at = float("-inf")
        """When the last re-authentication began."""
        self._is_again = False
        self.is_lifetime_known = False
        """Whether the client reads how long its session lasts."""

    @property
    def is_reauthenticating(self) -> bool:
        """Whether the client had been authenticated before."""
        return self._is_again

    def may_authenticate_again(self, now: Now) -> bool:
        """Whether a SaslHandshake now begins a re-authentication."""
        return (
            self.state is SaslState.COMPLETE
            and self.session.expires_at is not None
            and now.loop_s - self._begun_at >= REAUTHENTICATION_INTERVAL_S
        )

    def receive(self, view: memoryview, now: Now) -> Reply:
        """Answer a frame, which may be overwritten afterwards.

        After COMPLETE only a SaslHandshake may be passed, when `may_authenticate_again`.
        """
        if self.state is SaslState.COMPLETE:
            self._begun_at = now.loop_s
            self._is_again = True
        if self.state is SaslState.BARE_TOKENS:
            return self._token(None, bytes(view), now)
        request = read_request(view)
        if request is None:
            return self._close(SaslEvent.UNREADABLE, "a frame that is not a Kafka request")
        match request.header.api_key:
            case ApiKey.API_VERSIONS if self.state is not SaslState.TOKENS:
                return self._versions(request)
            case ApiKey.SASL_HANDSHAKE if self.state is not SaslState.TOKENS:
                return self._handshake(request)
            case ApiKey.SASL_AUTHENTICATE if isinstance(request.body, SaslAuthenticateRequest):
                return self._token(request.header, request.body.auth_bytes, now)
            case ApiKey.SASL_AUTHENTICATE:
                return self._close(SaslEvent.UNSUPPORTED, "an unsupported version")
            case _:
                return self._other_request(request.header, view)

    def _move(self, event: SaslEvent) -> bool:
        """Enter the next state; False if it is the end."""
        self.state = next_state(self.state, event)
        return self.state is not SaslState.FAILED

    def _close(self, event: SaslEvent, what: str) -> Reply:
        """Close at once without an answer."""
        waited_for = self.state.value
        self._move(event)
        assert self.state is SaslState.FAILED, "Only what the table does not allow closes."
        return Reply(failure=f"{self._doing} failed: {what} instead of {waited_for}")

    @property
    def _doing(self) -> str:
        return "re-authentication" if self._is_again else "authentication"

    def _versions(self, request: SaslRequest) -> Reply:
        event = SaslEvent.VERSIONS
        if not request.is_served:
            event = SaslEvent.VERSIONS_UNSUPPORTED
        elif not is_named_well(request):
            event = SaslEvent.VERSIONS_INVALID
        waited_for = self.state.value
        if not self._move(event):
            return Reply(failure=f"{self._doing} failed: ApiVersions instead of {waited_for}")
        return Reply(asks_for_versions=True)

    def _handshake(self, request: SaslRequest) -> Reply:
        header, body = request.header, request.body
        if not isinstance(body, SaslHandshakeRequest):
            return self._close(SaslEvent.UNSUPPORTED, "SaslHandshake in an unsupported version")
        offered = self._offered.get(body.mechanism)
        names = list(self._offered)
        if offered is None and self._is_again:
            # Kafka answers no handshake that fails once its client has been let in.
            return self._close(SaslEvent.MECHANISM_DISABLED, "a mechanism that is not enabled")
        if offered is None:
            self._move(SaslEvent.MECHANISM_DISABLED)
            answer = handshake_answer(header, ErrorCode.UNSUPPORTED_SASL_MECHANISM, names)
            is_name = _MECHANISM_NAME.fullmatch(body.mechanism) is not None
            shown = body.mechanism if is_name else "whose name is none"
            return Reply(answer, failure=f"Unsupported SASL mechanism {shown}", is_delayed=True)
        event = SaslEvent.HANDSHAKE if header.api_version else SaslEvent.BARE_HANDSHAKE
        if self._is_again and body.mechanism != self.session.mechanism:
            event = SaslEvent.OTHER_MECHANISM
        if not self._move(event):
            return Reply(failure=f"{self._doing} failed: SaslHandshake when it is not its turn")
        self._mechanism = body.mechanism
        self._exchange = offered.mechanism.begin()
        return Reply(handshake_answer(header, ErrorCode.NONE, names))

    def _token(self, header: RequestHeader | None, token: bytes, now: Now) -> Reply:
        """A token, with the header of its request or bare."""
        if self.state is SaslState.OTHER_MECHANISM:
            text = (
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self.session.mechanism}'"
            )
            return self._failure_reply(header, SaslFailure(text, text))
        if self._exchange is None or self.state not in (SaslState.TOKENS, SaslState.BARE_TOKENS):
            return self._close(SaslEvent.BAD_TOKEN, "SaslAuthenticate")
        try:
            answer, proven = self._exchange.evaluate(token)
            lifetime_ms = 0 if proven is None else self._prove(proven, now)
        except SaslFailure as failure:
            return self._failure_reply(header, failure)
        self._move(SaslEvent.TOKEN if proven is None else SaslEvent.LAST_TOKEN)
        if header is None:
            return Reply(bare_answer(answer))
        self.is_lifetime_known |= header.api_version > 0
        return Reply(token_answer(header, answer, lifetime_ms))

    def _prove(self, proven: Proven, now: Now) -> int:
        """Let the session be the client's; returns its lifetime in ms, or 0 if it has no end.

        Raises SaslFailure if the client was another one before.
        """
        principal = f"User:{proven.name}"
        if self._is_again and principal != self.session.principal:
            before = self.session.principal.removeprefix("User:")
            text = (
                "Cannot change principals during re-authentication from "
                f"User.{before}: User.{proven.name}"
            )
            raise SaslFailure(text, text)
        self._exchange = None
        lifetime_ms = self._lifetime_ms(proven, now)
        expires_at = None if lifetime_ms is None else now.loop_s + lifetime_ms / 1_000
        self.session = self.session.authenticated(principal, self._mechanism, expires_at)
        return lifetime_ms or 0

    def _lifetime_ms(self, proven: Proven, now: Now) -> int | None:
        """The shorter of what the listener allows and what the credential has left, if any."""
        bounds: list[int] = []
        max_reauth_ms = self._offered[self._mechanism].max_reauth_ms
        if max_reauth_ms > 0:
            bounds.append(max_reauth_ms)
        if proven.expires_at_ms is not None:
            bounds.append(max(0, int(proven.expires_at_ms - now.wall_ms)))
        return min(*bounds, LIFETIME_MAX_MS) if bounds else None

    def _failure_reply(self, header: RequestHeader | None, failure: SaslFailure) -> Reply:
        self._move(SaslEvent.BAD_TOKEN)
        self._exchange = None
        text = failure.text or (
            f"Authentication failed during {self._doing} due to invalid credentials with SASL "
            f"mechanism {self._mechanism}"
        )
        answer = () if header is None else failed_answer(header, text)
        reason = f"{self._doing} with {self._mechanism} failed: {failure.cause}"
        return Reply(answer, failure=reason, is_delayed=True)

    def _other_request(self, header: RequestHeader, view: memoryview) -> Reply:
        if header.api_key == ApiKey.API_VERSIONS and not is_readable(header):
            # It is answered in its first version, as it is in its turn (KIP-511).
            header = header._replace(api_version=0)
        if self.state is not SaslState.TOKENS or not is_readable(header):
            return self._close(SaslEvent.OTHER_REQUEST, f"a request with API key {header.api_key}")
        self._move(SaslEvent.OTHER_REQUEST)
        reason = f"{self._doing} failed: a request with API key {header.api_key} instead of a token"
        return Reply(illegal_state_answer(header, view), failure=reason, is_delayed=True)
