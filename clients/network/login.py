"""Logs a client in on a connection by SASL, and again before its session ends (KIP-152, KIP-368).

    SaslHandshake: the mechanism -> SaslAuthenticate: token -> token -> ... -> how long it lasts

Requests of others wait meanwhile; what was sent before is answered first.
"""

import asyncio
import math
import random
from collections.abc import Mapping

from ..errors import ErrorCode, KafkaError
from ..protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ..protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..protocol.schema import Message, VersionRange, version_range
from ..runtime.environment import Environment
from ..sasl.client_mechanism import ClientMechanism
from .channel import Channel

_TOKENS_MAX = 8
"""Tokens in one login; SCRAM has two."""
_TEXT_MAX = 300
"""Characters of the broker's own words."""
_NAMES_MAX = 20
_HANDSHAKE_VERSION = 1
"""The version after which tokens travel in SaslAuthenticate."""
_EARLIEST, _LATEST = 0.85, 0.95
"""The part of a session's lifetime after which to log in again, as in `SaslClientAuthenticator`."""


async def log_in(
    channel: Channel,
    mechanism: ClientMechanism,
    versions: Mapping[int, VersionRange],
    environment: Environment,
    timeout_seconds: float,
) -> None:
    """Prove who this client is; `versions` are those of the broker.

    A failure closes the connection. Raises TimeoutError, or KafkaError: one of REFUSED_LOGIN,
    UNSUPPORTED_VERSION, or what `Channel.request` raises.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            with channel.paused():
                lifetime_ms = await _exchange(channel, mechanism, versions, environment)
    except BaseException as error:
        channel.close(error if isinstance(error, KafkaError) else None)
        raise
    now = asyncio.get_running_loop().time()
    channel.log_in_again_at = now + _renewal_seconds(lifetime_ms, environment.random)


def _renewal_seconds(lifetime_ms: int, chance: random.Random) -> float:
    """When to log in again; clients that came together do so one by one."""
    if lifetime_ms <= 0:
        return math.inf
    return lifetime_ms / 1000 * chance.uniform(_EARLIEST, _LATEST)


async def _exchange(
    channel: Channel,
    mechanism: ClientMechanism,
    versions: Mapping[int, VersionRange],
    environment: Environment,
) -> int:
    """Returns how long the session lasts, in ms; 0: for ever."""
    handshake = SaslHandshakeRequest(mechanism=mechanism.name)
    _require(handshake, _HANDSHAKE_VERSION, versions)
    response = await channel.request_in_pause(handshake, _HANDSHAKE_VERSION, SaslHandshakeResponse)
    _check_handshake(mechanism.name, response)
    newest = version_range(SaslAuthenticateRequest.versions).highest
    exchange = mechanism.begin(environment.random_uuid)
    token = exchange.first()
    for _ in range(_TOKENS_MAX):
        request = SaslAuthenticateRequest(auth_bytes=token)
        version = _require(request, newest, versions)
        answer = await channel.request_in_pause(request, version, SaslAuthenticateResponse)
        if answer.error_code:
            raise _refusal(answer)
        further = exchange.answer(bytes(answer.auth_bytes))
        if further is None:
            return answer.session_lifetime_ms
        token = further
    raise KafkaError(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        f"{mechanism.name} did not end after {_TOKENS_MAX} messages.",
    )


def _require(message: Message, newest: int, versions: Mapping[int, VersionRange]) -> int:
    """The version to send, at most `newest`."""
    theirs = versions.get(message.api_key)
    needed = _HANDSHAKE_VERSION if isinstance(message, SaslHandshakeRequest) else 0
    if theirs is None or theirs.highest < needed or theirs.lowest > newest:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "the broker does not serve the requests of a login by SASL (Kafka 1.0 and later do)",
        )
    return min(newest, theirs.highest)


def _check_handshake(mechanism: str, response: SaslHandshakeResponse) -> None:
    if response.error_code == ErrorCode.NONE:
        return
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        names = ", ".join(map(_printable, response.mechanisms[:_NAMES_MAX])) or "none"
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"the listener has not enabled {mechanism}; its mechanisms are {names}",
        )
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise KafkaError(
            ErrorCode.ILLEGAL_SASL_STATE, "the listener has no SASL, or no login is due"
        )
    raise KafkaError(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        f"the broker refuses the handshake with error {response.error_code}",
    )


def _refusal(answer: SaslAuthenticateResponse) -> KafkaError:
    text = _printable(answer.error_message or "")
    return KafkaError(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        text or f"the broker refuses the login with error {answer.error_code}",
    )


def _printable(text: str) -> str:
    """The broker's words, bounded and safe to be shown."""
    short = text[:_TEXT_MAX]
    return short if short.isprintable() else ascii(short)[1:-1]
