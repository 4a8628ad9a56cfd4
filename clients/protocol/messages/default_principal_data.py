"""The principal of a client, as an Envelope request carries it to the controller (KIP-590).

Its version, two bytes, comes before it (`DefaultKafkaPrincipalBuilder` in Kafka).
"""

from ..schema import Message, field


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """Who sent the request that is forwarded."""

    type: str = field("0+")
    name: str = field("0+")
    token_authenticated: bool = field("0+")
