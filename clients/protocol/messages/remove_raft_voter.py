"""RemoveRaftVoter (key 81): removes a voter of the metadata log (KIP-853).

The only version is 0, which is flexible.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, field, int16, int32


class RemoveRaftVoterRequest(Message, key=81, versions="0", flexible="0+"):
    """The voter to remove."""

    cluster_id: str | None = field("0+", nullable="0+")
    voter_id: int32 = field("0+")
    voter_directory_id: Uuid = field("0+")


class RemoveRaftVoterResponse(Message, key=81, versions="0", flexible="0+"):
    """Whether the voter was removed."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", ignorable=True)
