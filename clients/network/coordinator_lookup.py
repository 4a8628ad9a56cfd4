"""Finds the coordinator of one group (FindCoordinator), and sends requests to it.

The coordinator may move to another broker. After an error that indicates a move, or a broken
connection, the next request looks up the coordinator again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import ErrorCode, KafkaError
from ..protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ..protocol.schema import NEWEST, Message
from ..runtime.backoff import Backoff
from ..runtime.environment import Environment
from .network import Address, NetworkClient
from .refusal import raise_for, refusal
from .retries import retry_until

T = TypeVar("T")
R = TypeVar("R", bound=Message)

_ONE_KEY_VERSION_MAX = 3

_MOVED = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)


class GroupCoordinatorClient:
    """Sends requests to the coordinator of `group_id`."""

    def __init__(self, group_id: str, network: NetworkClient, environment: Environment) -> None:
        self._group_id = group_id
        self._network = network
        self._random = environment.random
        self._backoff = Backoff(100, 1000)
        self._node_id: int | None = None

    async def ask(
        self,
        message: Message,
        response_class: type[R],
        *,
        timeout_ms: int | None = None,
        version_max: int = NEWEST,
    ) -> R:
        """Send a request to the coordinator. Raises `KafkaError`; the caller checks the error codes
        in the response, with `raise_for`.
        """
        node_id = self._node_id
        if node_id is None:
            node_id = self._node_id = await self._find()
        try:
            return await self._network.request(
                node_id, message, response_class, timeout_ms=timeout_ms, version_max=version_max
            )
        except KafkaError as error:
            self.note(error)
            raise

    def raise_for(self, error_code: int, message: str) -> None:
        """Raise the `KafkaError` for a response's error code, unless it is 0."""
        if error_code:
            error = refusal(error_code, message)
            self.note(error)
            raise error

    def note(self, error: KafkaError) -> None:
        """Forget the coordinator if the error indicates a move to another broker."""
        if error.code in _MOVED:
            self._node_id = None

    async def pause(self, failures: int) -> None:
        """Wait before the next attempt."""
        await asyncio.sleep(self._backoff.delay_seconds(failures, self._random))

    async def retry(self, attempt: Callable[[], Awaitable[T]], timeout_ms: int) -> T:
        """Retry until success, a fatal error or the timeout; raises the last `KafkaError`."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            return await retry_until(attempt, deadline, self._random)
        except KafkaError as error:
            # Also where the deadline came first: the coordinator may hang, and have moved.
            self.note(error)
            raise

    async def _find(self) -> int:
        response = await self._network.request_any(
            FindCoordinatorRequest(key=self._group_id, key_type=0),
            FindCoordinatorResponse,
            version_max=_ONE_KEY_VERSION_MAX,
        )
        message = response.error_message or f"No coordinator of {self._group_id} was found."
        raise_for(response.error_code, message)
        self._network.add_node(response.node_id, Address(response.host, response.port))
        return response.node_id
