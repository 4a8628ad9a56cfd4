"""Checks, before a tool begins, that a broker answers at the addresses given by the user.

A client that runs for days waits for brokers that are down. A user at a terminal has more likely
mistyped a port, and sees one message within seconds: the address, the failure and what to check.
"""

import asyncio
from collections.abc import Sequence
from ssl import SSLError

from ..errors import ErrorCode, KafkaError
from ..protocol.messages.metadata import MetadataRequest, MetadataResponse
from ..runtime.backoff import Backoff
from ..runtime.environment import Environment
from .metadata import Metadata
from .network import NetworkClient, NetworkConfig
from .security import REFUSED_LOGIN, UNSECURED, ConnectionSecurity

_TRIES_SECONDS = 5.0
"""How long to retry an address that refuses connections: the broker may just be starting."""
_ANSWER_MS = 10_000
"""How long to wait for a connection or a response."""


async def ensure_answers(
    bootstrap: str | Sequence[str],
    environment: Environment,
    *,
    tries_seconds: float = _TRIES_SECONDS,
    answer_ms: int = _ANSWER_MS,
    security: ConnectionSecurity = UNSECURED,
) -> None:
    """Raise `KafkaError(NETWORK_EXCEPTION)` unless a broker can be reached at `bootstrap`.

    A refused login is one of REFUSED_LOGIN, and is not tried again.

    Retries for `tries_seconds`; with 0 it tries once. Each try waits `answer_ms` for a connection.
    """
    network = NetworkClient(
        bootstrap,
        environment,
        NetworkConfig(
            client_id="tierlog-tool",
            # Longer than the connection timeout, whose error is more specific.
            request_timeout_ms=answer_ms + 5_000,
            socket_connection_setup_timeout_ms=answer_ms,
            security=security,
        ),
    )
    backoff = Backoff(100, 1000)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + tries_seconds
    failures = 0
    try:
        while True:
            try:
                await _talk(network, environment, security.protocol)
            except KafkaError as error:
                if error.code in REFUSED_LOGIN:
                    raise
                failures += 1
                delay = backoff.delay_seconds(failures, environment.random)
                if loop.time() + delay >= deadline:
                    raise
                await asyncio.sleep(delay)
            else:
                return
    finally:
        await network.close()


async def _talk(network: NetworkClient, environment: Environment, protocol: str) -> None:
    """Request metadata, then check that one of the brokers in it can be reached, too."""
    try:
        await Metadata(network, environment).refresh(())
    except KafkaError as error:
        if error.code in REFUSED_LOGIN:
            raise
        raise KafkaError(
            ErrorCode.NETWORK_EXCEPTION,
            f"{error.message.rstrip('.')}. {_advice(error, protocol)}",
        ) from error
    failure: KafkaError | None = None
    for node_id in network.node_ids:
        try:
            await network.request(node_id, MetadataRequest(topics=[]), MetadataResponse)
        except KafkaError as error:
            if error.code in REFUSED_LOGIN:
                raise
            failure = failure or error
        else:
            return
    if failure is not None:
        raise KafkaError(
            ErrorCode.NETWORK_EXCEPTION,
            f"{failure.message.rstrip('.')}. The broker advertises this address: check its "
            "`advertised.listeners`",
        ) from failure


def _advice(error: KafkaError, protocol: str) -> str:
    """What to do about a first connection that failed, without the full stop."""
    cause: BaseException = error
    while isinstance(cause, KafkaError) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, SSLError):
        from .tls import tls_advice

        if advice := tls_advice(cause):
            return advice
    article = "an" if protocol == "SSL" else "a"
    check = (
        "Check host and port, that the broker runs, and that "
        f"its `listeners` has {article} {protocol} listener there"
    )
    is_silent = isinstance(cause, OSError) and not isinstance(cause, SSLError)
    return check if is_silent else f"{check}; name another one with security.protocol"
