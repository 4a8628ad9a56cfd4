"""Heartbeat (key 12): keeps a member of a classic group alive.

Versions: 1 throttle time; 3 static members (KIP-345); 4 flexible.
"""

from ..schema import Message, field, int16, int32


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    """The member and its generation."""

    group_id: str = field("0+")
    generation_id: int32 = field("0+")
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, key=12, versions="0-4", flexible="4+"):
    """Whether the sender is still a member, and whether it must rejoin."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
