"""Sends the quorum's requests to the other nodes (Kafka's `KafkaNetworkChannel`).

A node is reached at the address that the core gives with each request: a voter's endpoint, or a
bootstrap server, which has a negative id.
"""

import asyncio
import errno
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ... import __version__
from ...clients.errors import ErrorCode, KafkaError
from ...clients.network.network import (
    SOFTWARE_NAME,
    Address,
    NetworkClient,
    NetworkConfig,
)
from ...clients.network.security import REFUSED_LOGIN, UNSECURED, ConnectionSecurity
from ...clients.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...clients.runtime.environment import Environment
from ..raft.raft_actions import Destination
from ..raft.raft_messages import RaftRequest, RaftResponse
from ..raft.raft_options import KRAFT_VERSION_FEATURE
from ..raft.voter_set import KRaftVersionRange
from .wire_requests import wire_request
from .wire_responses import RESPONSE_CLASSES, core_response

_RESPONSE_BYTES_MAX = 64 << 20
"""A batch of the metadata log has at most 8 MiB, a fetched part of it little more than that."""

_OUTAGE_GAP_S = 2.5
"""Failures that are further apart count as two outages: between them the node may have been up."""

_REFUSALS_MAX = 100
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)
_QUORUM_ERRORS = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.SNAPSHOT_NOT_FOUND,
        ErrorCode.POSITION_OUT_OF_RANGE,
    }
)
"""What a node of this quorum answers while leaders change."""


def _hint(code: ErrorCode) -> str:
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "its super.users do not name this node's principal"
    return "is it a controller's listener?"


class _Outage(NamedTuple):
    """Requests to a node that found no connection, one after the other; times of the loop."""

    first: float
    last: float
    is_end: bool
    """Whether its system closed or refused the connections, as for a process that has ended."""


def _is_end_of_process(error: KafkaError) -> bool:
    cause = error.__cause__
    # Who refuses a login is there, as is who is only silent.
    is_there = isinstance(cause, TimeoutError) or (
        isinstance(cause, KafkaError)
        and (cause.code is ErrorCode.REQUEST_TIMED_OUT or cause.code in REFUSED_LOGIN)
    )
    return not is_there and getattr(cause, "errno", None) not in _UNREACHABLE


class QuorumTransport(Protocol):
    """How the nodes of a quorum reach each other."""

    async def request(self, destination: Destination, request: RaftRequest) -> RaftResponse:
        """Send a request and wait for its response.

        Raises KafkaError: REQUEST_TIMED_OUT, NETWORK_EXCEPTION, UNSUPPORTED_VERSION,
        INVALID_REQUEST for a response that cannot be understood.
        """
        ...

    async def kraft_versions(self, destination: Destination) -> KRaftVersionRange:
        """Ask a node for the versions of `kraft.version` that it supports (ApiVersions).

        Raises KafkaError: REQUEST_TIMED_OUT, NETWORK_EXCEPTION, or what the node answers.
        """
        ...

    @property
    def refusals(self) -> Mapping[str, str]:
        """Why the last request to a node failed, by its address; nodes that answer are not here."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class QuorumChannel:
    """A `QuorumTransport` over Kafka's protocol."""

    def __init__(
        self,
        node_id: int,
        environment: Environment,
        *,
        request_timeout_ms: int = 2_000,
        fetch_max_bytes: int = 1 << 20,
        security: ConnectionSecurity = UNSECURED,
    ) -> None:
        """Without `security`, connections are in plain text and without a login."""
        self._node_id = node_id
        self._environment = environment
        self._fetch_max_bytes = fetch_max_bytes
        self.refusals: dict[str, str] = {}
        """Why the last request to a node failed, by its address; nodes that answer are not here."""
        self._outages: dict[tuple[str, int], _Outage] = {}
        config = NetworkConfig(
            client_id=f"raft-client-{node_id}",
            request_timeout_ms=request_timeout_ms,
            socket_connection_setup_timeout_ms=request_timeout_ms,
            response_bytes_max=_RESPONSE_BYTES_MAX,
            security=security,
        )
        self._security = security
        # The addresses come with the requests.
        self._network = NetworkClient((), environment, config)

    async def request(self, destination: Destination, request: RaftRequest) -> RaftResponse:
        """See `QuorumTransport`."""
        address = Address(destination.address.host, destination.address.port)
        try:
            response = await self._exchange(destination.node_id, address, request)
        except KafkaError as error:
            if error.code is ErrorCode.NETWORK_EXCEPTION:
                self._note_outage(address, error)
            reason = (error.message or error.code.name).rstrip(".")
            self._note_refusal(
                address, reason if str(address) in reason else f"{address}: {reason}"
            )
            raise
        self._outages.pop(address, None)
        code = response.error_code or response.partition_error_code
        if code is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._note_refusal(address, f"{address} belongs to a cluster with another id")
        elif code not in _QUORUM_ERRORS:
            self._note_refusal(address, f"{address} answers {code.name}: {_hint(code)}")
        else:
            self.refusals.pop(str(address), None)
        return response

    def failed_since(self, address: tuple[str, int], since: float) -> bool:
        """Whether the last request to a node found no connection, at or after this time.

        A request that has only taken too long does not count.
        """
        outage = self._outages.get(address)
        return outage is not None and outage.last >= since

    async def refuses(self, destination: Destination) -> bool:
        """Whether a node's system refuses a new connection; one that is only silent does not."""
        # Its own client: the other one may wait with its next attempt.
        fresh = QuorumChannel(
            self._node_id,
            self._environment,
            request_timeout_ms=self._network.request_timeout_ms,
            security=self._security,
        )
        try:
            await fresh.kraft_versions(destination)
        except KafkaError as error:
            return error.code is ErrorCode.NETWORK_EXCEPTION and _is_end_of_process(error)
        finally:
            await fresh.close()
        return False

    def ended_since(self, address: tuple[str, int]) -> float | None:
        """Since when a node's connections are closed or refused, without a break, until now.

        None if the last of them was not, or some time ago. A network that passes nothing on, or
        says that it cannot reach the node, closes nothing.
        """
        outage = self._outages.get(address)
        now = asyncio.get_running_loop().time()
        if outage is None or not outage.is_end or now - outage.last > _OUTAGE_GAP_S:
            return None
        return outage.first

    def _note_outage(self, address: Address, error: KafkaError) -> None:
        now, before = asyncio.get_running_loop().time(), self._outages.get(address)
        is_end = _is_end_of_process(error)
        if before is not None and before.is_end == is_end and now - before.last <= _OUTAGE_GAP_S:
            self._outages[address] = before._replace(last=now)
        elif before is not None or len(self._outages) < _REFUSALS_MAX:
            self._outages[address] = _Outage(now, now, is_end)

    def _note_refusal(self, address: Address, reason: str) -> None:
        if len(self.refusals) < _REFUSALS_MAX:
            self.refusals[str(address)] = reason

    async def _exchange(self, node_id: int, address: Address, request: RaftRequest) -> RaftResponse:
        self._network.add_node(node_id, address)
        response = core_response(
            await self._network.request(
                node_id,
                wire_request(request, self._fetch_max_bytes),
                RESPONSE_CLASSES[type(request)],
            )
        )
        if response is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The response of {address} does not speak of exactly one partition.",
            )
        return response

    async def kraft_versions(self, destination: Destination) -> KRaftVersionRange:
        """See `QuorumTransport`."""
        address = Address(destination.address.host, destination.address.port)
        self._network.add_node(destination.node_id, address)
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=__version__
        )
        response = await self._network.request(destination.node_id, request, ApiVersionsResponse)
        if response.error_code:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{address} does not report its versions."
            )
        for feature in response.supported_features:
            if feature.name == KRAFT_VERSION_FEATURE:
                return KRaftVersionRange(feature.min_version, feature.max_version)
        # A node of a release before the feature.
        return KRaftVersionRange()

    async def close(self) -> None:
        """See `QuorumTransport`."""
        await self._network.close()
