"""Connections to the brokers of one cluster (`NetworkClient` in Kafka).

Addresses come from the bootstrap list first and from metadata afterwards. As in Kafka, bootstrap
addresses have negative node ids, because it is not yet known which brokers they belong to. A node
is connected when a request needs it. The first request on a connection is ApiVersions (KIP-511);
every later one uses the newest version that both sides support. If the listener has SASL, a login
follows, and another one before the session ends. After a failed connection attempt, requests to the
node wait for a back-off that grows with each failure.

All waits are bounded by the request's timeout. A connection attempt and the renewal of a login are
tasks of this client, one at a time for each node, with time limits of their own: a caller that
stops waiting does not end them for the others.
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from ssl import SSLError
from typing import NamedTuple, TypeVar

from ... import __version__
from ..errors import ErrorCode, KafkaError
from ..protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..protocol.schema import NEWEST, Message, VersionRange, version_range
from ..runtime.backoff import Backoff
from ..runtime.environment import Environment
from ..runtime.task_owner import TaskOwner
from .channel import Channel
from .refusal import raise_for
from .security import REFUSED_LOGIN, UNSECURED, ConnectionSecurity

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_TASKS_MAX = 10_000
"""Nodes that one client connects to at the same time, or renews its login at."""

DESERTED_MAX = 8
"""Late connections of a node that are kept; of more, the oldest is closed."""

SOFTWARE_NAME = "tierlog"


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """The settings of a network client, under the names of Kafka's client configs."""

    client_id: str = "tierlog"
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    max_in_flight_requests_per_connection: int = 5
    response_bytes_max: int = 256 * 1024 * 1024
    security: ConnectionSecurity = UNSECURED
    keeps_late_connections: bool = False
    """Whether a connection whose response is late stays open until another one has a response.

    A peer that takes the end of all connections for the end of this process is right then."""


def parse_bootstrap(servers: str | Sequence[str]) -> list[Address]:
    """The addresses in a `bootstrap.servers` value. Raises `KafkaError(INVALID_CONFIG)`."""
    parts = servers.split(",") if isinstance(servers, str) else servers
    addresses: list[Address] = []
    for part in (part.strip() for part in parts):
        host, colon, port = part.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid url in bootstrap.servers: {part} is not HOST:PORT",
            )
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid url in bootstrap.servers: {part} is not HOST:PORT; write an IPv6 address"
                " in brackets, as in [::1]:9092",
            )
        addresses.append(Address(host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses


@dataclass(slots=True)
class _Node:
    """One node's address and the state of the connection to it."""

    address: Address
    channel: Channel | None = None
    versions: dict[int, VersionRange] = field(default_factory=dict[int, VersionRange])
    failures: int = 0
    retry_at: float = 0.0
    attempted_at: float = 0.0
    connecting: asyncio.Task[Channel] | None = None
    renewing: asyncio.Task[None] | None = None
    deserted: list[Channel] = field(default_factory=list[Channel])
    """Connections whose responses were late, and that are kept; the oldest first."""

    @property
    def preference(self) -> tuple[bool, float]:
        """The lower, the sooner this node may answer a request that any node can answer."""
        if self.channel is not None and self.channel.is_open:
            return False, self.channel.in_flight_count
        return True, self.attempted_at


class NetworkClient:
    """Sends requests to nodes by id; connects, negotiates versions and backs off as needed."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        environment: Environment,
        config: NetworkConfig | None = None,
    ) -> None:
        self._config = config or NetworkConfig()
        self._environment = environment
        self._backoff = Backoff(
            self._config.reconnect_backoff_ms, self._config.reconnect_backoff_max_ms
        )
        self._bootstrap = {
            -1 - index: _Node(address) for index, address in enumerate(parse_bootstrap(bootstrap))
        }
        self._nodes: dict[int, _Node] = {}
        # Each failure reaches the callers that wait for it.
        self._tasks = TaskOwner(_TASKS_MAX, on_failure=lambda _task, _error: None)
        self._is_closed = False

    @property
    def node_ids(self) -> list[int]:
        """The brokers from metadata; empty before the first `update_nodes`."""
        return list(self._nodes)

    @property
    def request_timeout_ms(self) -> int:
        return self._config.request_timeout_ms

    def update_nodes(self, addresses: Mapping[int, Address]) -> None:
        """Replace the known brokers with those in metadata; connections to others are closed."""
        for node_id, node in list(self._nodes.items()):
            if addresses.get(node_id) != node.address:
                del self._nodes[node_id]
                _disconnect(node)
        for node_id, address in addresses.items():
            if node_id not in self._nodes:
                self._nodes[node_id] = _Node(address)
        if addresses:
            # Like Kafka's clients, drop the bootstrap connections once brokers are known.
            for node in self._bootstrap.values():
                if node.channel is not None and not node.channel.in_flight_count:
                    _disconnect(node)

    def add_node(self, node_id: int, address: Address) -> None:
        """Add one broker, such as a coordinator that is not in the metadata yet."""
        node = self._nodes.get(node_id)
        if node is None or node.address != address:
            if node is not None:
                _disconnect(node)
            self._nodes[node_id] = _Node(address)

    async def request(
        self,
        node_id: int,
        message: Message,
        response_class: type[R],
        *,
        timeout_ms: int | None = None,
        version_max: int = NEWEST,
    ) -> R:
        """Send a request to a node, connecting first if needed, and wait for its response.

        Raises `KafkaError`: REQUEST_TIMED_OUT, NETWORK_EXCEPTION, UNSUPPORTED_VERSION if client
        and broker have no version in common, or SASL_AUTHENTICATION_FAILED and its kin if the
        login is refused and `may_retry_login` is not set.
        """
        timeout = (self._config.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        deadline = asyncio.get_running_loop().time() + timeout
        node = self._node(node_id)
        channel = await self._channel_to(node, deadline)
        version = _negotiate(node, message, version_max)
        remaining = deadline - asyncio.get_running_loop().time()
        answer = await channel.request(message, version, response_class, remaining)
        if node.deserted:
            _hang_up_deserted(node)
        return answer

    async def send_unanswered(self, node_id: int, message: Message) -> None:
        """Send a Produce request with acks=0, which has no response. Raises like `request`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._config.request_timeout_ms / 1000
        node = self._node(node_id)
        channel = await self._channel_to(node, deadline)
        if channel.log_in_again is not None:
            try:
                async with asyncio.timeout_at(deadline):
                    await channel.until_logged_in()
            except TimeoutError:
                raise _late(node) from None
        channel.send_unanswered(message, _negotiate(node, message, NEWEST))

    async def request_any(
        self, message: Message, response_class: type[R], *, version_max: int = NEWEST
    ) -> R:
        """Send a request to the first broker that answers; tries each known broker once.

        Raises the last node's `KafkaError` when none answers.
        """
        failure = KafkaError(ErrorCode.NETWORK_EXCEPTION, "No broker is known.")
        for node_id in self._by_preference():
            try:
                return await self.request(node_id, message, response_class, version_max=version_max)
            except KafkaError as error:
                if error.code not in _CONNECTION_ERRORS:
                    raise
                failure = error
        raise failure

    async def close(self) -> None:
        """Close all connections; requests in flight fail, later ones are refused."""
        self._is_closed = True
        for node in (*self._nodes.values(), *self._bootstrap.values()):
            _disconnect(node)
        await self._tasks.stop()
        # Transports call `connection_lost` in the next iteration of the event loop.
        await asyncio.sleep(0)

    def _node(self, node_id: int) -> _Node:
        node = self._nodes.get(node_id) or self._bootstrap.get(node_id)
        if node is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"Node {node_id} is not known.")
        return node

    def _by_preference(self) -> list[int]:
        """Node ids: connected nodes first, then those not tried for longest; ties at random.

        Of connected ones, the one with the fewest requests in flight comes first, as in Kafka
        (`NetworkClient.leastLoadedNode`): one that is paused keeps its connection.
        """
        addresses = {node.address for node in self._nodes.values()}
        # An address of the bootstrap list that is a broker's is not asked twice.
        nodes = self._nodes | {
            key: node for key, node in self._bootstrap.items() if node.address not in addresses
        }
        ids = list(nodes)
        self._environment.random.shuffle(ids)
        ids.sort(key=lambda node_id: nodes[node_id].preference)
        return ids

    async def _channel_to(self, node: _Node, deadline: float) -> Channel:
        channel = node.channel
        if channel is not None and channel.is_open and not self._is_closed:
            # The usual case needs neither the lock nor a timer.
            return channel
        if self._is_closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The client is closed.")
        if node.connecting is None or node.connecting.done():
            node.connecting = self._tasks.start(self._connect(node), f"connect to {node.address}")
        try:
            async with asyncio.timeout_at(deadline):
                return await _outcome(node.connecting)
        except TimeoutError:
            raise _late(node) from None

    async def _connect(self, node: _Node) -> Channel:
        """Open the connection and request the versions; a failure counts towards the back-off."""
        loop = asyncio.get_running_loop()
        if node.retry_at > loop.time():
            await asyncio.sleep(node.retry_at - loop.time())
        node.attempted_at = loop.time()
        try:
            async with asyncio.timeout(self._config.socket_connection_setup_timeout_ms / 1000):
                _, channel = await loop.create_connection(
                    self._new_channel,
                    node.address.host,
                    node.address.port,
                    ssl=self._config.security.ssl_context,
                )
                node.versions = await self._api_versions(channel)
                if self._config.security.login is not None:
                    await self._log_in(node, channel)
                    channel.log_in_again = partial(self._log_in_again, node, channel)
        # TimeoutError is an OSError; a ValueError is an invalid host name; an OverflowError
        # is a port beyond 65535.
        except (OSError, ValueError, OverflowError, KafkaError) as error:
            node.failures += 1
            delay = self._backoff.delay_seconds(node.failures, self._environment.random)
            node.retry_at = loop.time() + delay
            raise KafkaError(
                self._code(error), f"Cannot connect to {node.address}: {self._reason(error)}"
            ) from error
        if self._config.keeps_late_connections:
            channel.is_kept_when_late = True
            if node.channel is not None:
                node.deserted.append(node.channel)
                _hang_up_deserted(node, DESERTED_MAX)
        node.channel = channel
        node.failures = 0
        return channel

    async def _log_in(self, node: _Node, channel: Channel) -> None:
        from .login import log_in

        mechanism = self._config.security.login
        assert mechanism is not None, "only a client with a login logs in"
        timeout = self._config.request_timeout_ms / 1000
        await log_in(channel, mechanism, node.versions, self._environment, timeout)

    async def _log_in_again(self, node: _Node, channel: Channel) -> None:
        if node.renewing is None or node.renewing.done():
            node.renewing = self._tasks.start(
                self._renew_login(node, channel), f"log in to {node.address} again"
            )
        await _outcome(node.renewing)

    async def _renew_login(self, node: _Node, channel: Channel) -> None:
        """Prove again who this client is; a failure costs the connection."""
        try:
            await self._log_in(node, channel)
        except KafkaError as error:
            raise KafkaError(
                self._code(error),
                f"Cannot log in to {node.address} again: {self._reason(error)}",
            ) from error

    def _code(self, error: OSError | ValueError | OverflowError | KafkaError) -> ErrorCode:
        """The error of a failed connection: another one if its login was refused for good."""
        code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
        is_final = code in REFUSED_LOGIN and not self._config.security.may_retry_login
        return code if is_final else ErrorCode.NETWORK_EXCEPTION

    def _reason(self, error: OSError | ValueError | OverflowError | KafkaError) -> str:
        """Why the connection failed, without the event loop's own wording."""
        if isinstance(error, KafkaError):
            return error.message
        if isinstance(error, SSLError):
            from .tls import tls_reason

            return tls_reason(error)
        if isinstance(error, OverflowError):
            return "there is no such port"
        if isinstance(error, ValueError):
            return f"the host name is invalid: {error}"
        if isinstance(error, TimeoutError) and error.errno is None:
            seconds = self._config.socket_connection_setup_timeout_ms / 1000
            return f"no response within {seconds:g} s"
        # If a host name has several addresses, one error without errno lists all failures.
        numbers = dict.fromkeys(map(int, _ERROR_NUMBER.findall(str(error))))
        if error.errno is not None and error.errno > 0:
            numbers = {error.errno: None}
        return ", ".join(map(os.strerror, numbers)) or error.strerror or str(error)

    def _new_channel(self) -> Channel:
        return Channel(
            self._config.client_id,
            in_flight_max=self._config.max_in_flight_requests_per_connection,
            response_bytes_max=self._config.response_bytes_max,
        )

    async def _api_versions(self, channel: Channel) -> dict[int, VersionRange]:
        """Request ApiVersions in our newest version, or in 0 if the broker is older (KIP-511)."""
        timeout = self._config.request_timeout_ms / 1000
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=__version__
        )
        newest = version_range(ApiVersionsRequest.versions).highest
        try:
            response = await channel.request(request, newest, ApiVersionsResponse, timeout)
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                response = await channel.request(request, 0, ApiVersionsResponse, timeout)
            raise_for(response.error_code, "ApiVersions was refused.")
        except BaseException:
            channel.close()
            raise
        return {
            api.api_key: VersionRange(api.min_version, api.max_version) for api in response.api_keys
        }


_ERROR_NUMBER = re.compile(r"\[Errno (\d{1,4})\]")

_CONNECTION_ERRORS = frozenset((ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT))
"""Errors after which another node may still answer."""


async def _outcome(task: asyncio.Task[T]) -> T:
    """Wait for a task of the client; a cancelled caller does not cancel it for the others."""
    await asyncio.wait((task,))
    if task.cancelled():
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The connection was given up by this client.")
    return task.result()


def _disconnect(node: _Node) -> None:
    if node.connecting is not None:
        node.connecting.cancel()
    if node.channel is not None:
        node.channel.close()
        node.channel = None
    _hang_up_deserted(node)


def _hang_up_deserted(node: _Node, kept_max: int = 0) -> None:
    while len(node.deserted) > kept_max:
        node.deserted.pop(0).hang_up()


def _late(node: _Node) -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{node.address} could not be reached in time.")


def _negotiate(node: _Node, message: Message, version_max: int) -> int:
    theirs = node.versions.get(message.api_key)
    ours = version_range(message.versions)
    if theirs is not None:
        newest = min(theirs.highest, ours.highest, version_max)
        if newest >= max(theirs.lowest, ours.lowest):
            return newest
    raise KafkaError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"{node.address} and this client support no common version of {type(message).__name__}.",
    )
