"""The control record that begins every epoch of the metadata log (KIP-595).

Versions: 1 directory ids of voters (KIP-853).
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32


class Voter(Struct):
    """A node with a vote."""

    voter_id: int32 = field("0+")
    voter_directory_id: Uuid = field("1+")


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """The value of a LEADER_CHANGE control record."""

    version: int16 = field("0+")
    leader_id: int32 = field("0+")
    voters: list[Voter] = field("0+")
    granting_voters: list[Voter] = field("0+")
