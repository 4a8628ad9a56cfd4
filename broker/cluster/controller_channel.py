"""Sends requests to the active controller, whichever process that is.

After a lost connection, a try without a response, or the error NOT_CONTROLLER, the request is sent
again, to the controller that the local member of the quorum names then
(`NodeToControllerChannelManager` in Kafka). A request may therefore be executed twice, like the
requests of Kafka's own clients.

A response of several items counts as NOT_CONTROLLER if any item has that error: the controller lost
the lead before it decided.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from ...clients.errors import ErrorCode, KafkaError
from ...clients.network.network import Address, NetworkClient, NetworkConfig
from ...clients.network.security import UNSECURED, ConnectionSecurity
from ...clients.protocol.api import APIS
from ...clients.protocol.schema import Message
from ...clients.runtime.environment import Environment
from .response_errors import error_codes

R = TypeVar("R", bound=Message)

RETRY_MS = 100
"""The time between two tries."""
REQUESTS_MAX = 1_000
"""Requests that wait or are in flight; another one gets REQUEST_TIMED_OUT at once."""
IN_FLIGHT_MAX = 5
"""Requests in flight on the connection; others wait for their turn."""
_RESPONSE_BYTES_MAX = 100 << 20

_CONNECTION_ERRORS = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})


class LeaderView(Protocol):
    """What a process knows of the quorum's leader; `QuorumMember` has it."""

    @property
    def leader_id(self) -> int:
        """The leader's node id; -1 if unknown."""
        ...

    @property
    def leader_address(self) -> tuple[str, int] | None:
        """The host and port of the leader on the controllers' listener; None if unknown."""
        ...

    def on_leader_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the leader or its epoch has changed."""
        ...


class ControllerChannel:
    """See the top of this file. One channel has one connection, and in-order delivery on it.

    Requests of one purpose need a channel of their own if no other request may hold them up.
    """

    def __init__(
        self,
        member: LeaderView,
        environment: Environment,
        *,
        client_id: str,
        request_timeout_ms: int,
        security: ConnectionSecurity = UNSECURED,
        keeps_late_connections: bool = False,
    ) -> None:
        """`request_timeout_ms` is the longest time of one try (`controller.socket.timeout.ms`);
        without `security`, connections are in plain text and without a login.
        With `keeps_late_connections`, one without a response in time ends when another has one:
        an active controller may take its end for the end of this process.
        """
        self._member = member
        self._request_timeout_ms = request_timeout_ms
        self._network = NetworkClient(
            (),
            environment,
            NetworkConfig(
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                socket_connection_setup_timeout_ms=min(request_timeout_ms, 10_000),
                reconnect_backoff_max_ms=RETRY_MS,
                max_in_flight_requests_per_connection=IN_FLIGHT_MAX,
                response_bytes_max=_RESPONSE_BYTES_MAX,
                security=security,
                keeps_late_connections=keeps_late_connections,
            ),
        )
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._requests = 0
        self._tries: dict[asyncio.Timeout, None] = {}
        self._leader: tuple[int, Address] | None = None
        self._is_closed = False
        member.on_leader_change(self._point_at_leader)

    async def request(self, message: Message, response: type[R], timeout_ms: int) -> R:
        """Send a request to the active controller, and wait for its response.

        Raises KafkaError: REQUEST_TIMED_OUT when `timeout_ms` is over or too many requests wait
        already; UNSUPPORTED_VERSION if the active controller does not serve the API;
        INVALID_REQUEST for a response that cannot be read; NETWORK_EXCEPTION after `close`.
        """
        if self._requests >= REQUESTS_MAX:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{REQUESTS_MAX} requests already wait for the active controller.",
            )
        self._requests += 1
        try:
            return await self._until_answered(message, response, timeout_ms)
        finally:
            self._requests -= 1

    async def close(self) -> None:
        """Close the connection; requests in flight fail, later ones are refused."""
        self._is_closed = True
        await self._network.close()

    async def _until_answered(self, message: Message, response: type[R], timeout_ms: int) -> R:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        failure = "no controller is active"
        while not self._is_closed:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._slots.acquire()
            except TimeoutError:
                raise _late(timeout_ms, failure) from None
            try:
                answer = await self._try(message, response, deadline)
            finally:
                self._slots.release()
            if not isinstance(answer, str):
                return answer
            failure = answer
            if loop.time() + RETRY_MS / 1000 >= deadline:
                await asyncio.sleep(max(deadline - loop.time(), 0))
                raise _late(timeout_ms, failure)
            await asyncio.sleep(RETRY_MS / 1000)
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The channel to the controller is closed.")

    async def _try(self, message: Message, response: type[R], deadline: float) -> R | str:
        """The response of the active controller, or why there is none yet."""
        self._point_at_leader()
        if self._leader is None:
            return "no controller is active"
        leader_id = self._leader[0]
        remaining_ms = int((deadline - asyncio.get_running_loop().time()) * 1000)
        timeout_ms = max(1, min(self._request_timeout_ms, remaining_ms))
        try:
            async with asyncio.timeout(None) as this_try:
                self._tries[this_try] = None
                try:
                    answer = await self._network.request(
                        leader_id, message, response, timeout_ms=timeout_ms
                    )
                finally:
                    self._tries.pop(this_try, None)
        except TimeoutError:
            return f"controller {leader_id} is not the active one any more"
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                raise _not_served(message, leader_id) from error
            if error.code not in _CONNECTION_ERRORS:
                raise
            return f"controller {leader_id}: {error.message.rstrip('.')}"
        if ErrorCode.NOT_CONTROLLER in error_codes(answer):
            return f"controller {leader_id} is not the active one"
        return answer

    def _point_at_leader(self) -> None:
        """Direct requests to the leader; those in flight to a former one are given up and resent.

        While no leader is known, requests in flight may still be answered.
        """
        leader_id, address = self._member.leader_id, self._member.leader_address
        if leader_id < 0 or address is None or self._is_closed:
            return
        leader = (leader_id, Address(*address))
        if leader != self._leader:
            self._leader = leader
            now = asyncio.get_running_loop().time()
            for timeout in self._tries:
                timeout.reschedule(now)
            self._network.update_nodes({leader_id: leader[1]})


def _late(timeout_ms: int, failure: str) -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"The active controller did not respond within {timeout_ms} ms: {failure}.",
    )


def _not_served(message: Message, leader_id: int) -> KafkaError:
    api = APIS.get(message.api_key)
    name = type(message).__name__ if api is None else api.name
    return KafkaError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"The active controller, node {leader_id}, does not support a version of {name} that this"
        " broker can send.",
    )
