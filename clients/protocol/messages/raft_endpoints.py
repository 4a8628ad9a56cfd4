"""Addresses of leaders, as requests and responses of the metadata quorum name them (KIP-853)."""

from ..schema import Struct, field, int32, uint16


class LeaderEndpoint(Struct):
    """The address of the leader on one listener; in requests of the leader itself."""

    name: str = field("1+")
    host: str = field("1+")
    port: uint16 = field("1+")


class NodeEndpoint(Struct):
    """The address of a leader that a response names."""

    node_id: int32 = field("1+")
    host: str = field("1+")
    port: uint16 = field("1+")
