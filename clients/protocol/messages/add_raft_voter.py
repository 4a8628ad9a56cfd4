"""AddRaftVoter (key 80): makes a replica of the metadata log a voter (KIP-853).

Versions: 1 may answer before the new set of voters is committed.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32, uint16


class Listener(Struct):
    """An address of the voter."""

    name: str = field("0+")
    host: str = field("0+")
    port: uint16 = field("0+")


class AddRaftVoterRequest(Message, key=80, versions="0-1", flexible="0+"):
    """The voter to add."""

    cluster_id: str | None = field("0+", nullable="0+")
    timeout_ms: int32 = field("0+")
    voter_id: int32 = field("0+")
    voter_directory_id: Uuid = field("0+")
    listeners: list[Listener] = field("0+")
    ack_when_committed: bool = field("1+", default=True)


class AddRaftVoterResponse(Message, key=80, versions="0-1", flexible="0+"):
    """Whether the voter was added."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", ignorable=True)
