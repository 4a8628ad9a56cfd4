"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

Versions: 1 key types and error message; 3 flexible; 4 several keys in one request (KIP-699); 5 new
error codes for transactions (KIP-890); 6 share groups (KIP-932).
"""

from ..schema import Message, Struct, field, int8, int16, int32


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
    """The keys to find coordinators for: one up to version 3, several from 4 on."""

    key: str = field("0-3")
    key_type: int8 = field("1+")
    coordinator_keys: list[str] = field("4+")


class Coordinator(Struct):
    """The coordinator of one key, from version 4 on."""

    key: str = field("4+")
    node_id: int32 = field("4+")
    host: str = field("4+")
    port: int32 = field("4+")
    error_code: int16 = field("4+")
    error_message: str | None = field("4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message, key=10, versions="0-6", flexible="3+"):
    """The coordinator, or from version 4 on one for each key."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0-3")
    error_message: str | None = field("1-3", nullable="1-3", ignorable=True)
    node_id: int32 = field("0-3")
    host: str = field("0-3")
    port: int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")
