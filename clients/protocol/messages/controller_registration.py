"""ControllerRegistration (key 70): a controller registers with the active one (KIP-919).

The only version is 0, which is flexible.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, field, int16, int32
from .broker_registration import Feature, Listener


class ControllerRegistrationRequest(Message, key=70, versions="0", flexible="0+"):
    """The controller's incarnation, addresses and features."""

    controller_id: int32 = field("0+")
    incarnation_id: Uuid = field("0+")
    zk_migration_ready: bool = field("0+")
    listeners: list[Listener] = field("0+")
    features: list[Feature] = field("0+")


class ControllerRegistrationResponse(Message, key=70, versions="0", flexible="0+"):
    """Whether the controller was registered."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
