"""BrokerRegistration (key 62): a starting broker registers with the controller (KIP-631).

Versions: 1 a flag of migrations from ZooKeeper; 2 log directories (KIP-858); 3 the broker epoch
before a clean stop (KIP-966); 4 features whose lowest version is 0 (KAFKA-17011).
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32, int64, uint16


class Listener(Struct):
    """An address of a broker or a controller."""

    name: str = field("0+")
    host: str = field("0+")
    port: uint16 = field("0+")
    security_protocol: int16 = field("0+")


class Feature(Struct):
    """The versions of a feature that a broker or a controller supports."""

    name: str = field("0+")
    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


class BrokerRegistrationRequest(Message, key=62, versions="0-4", flexible="0+"):
    """The broker's incarnation, addresses, features and directories."""

    broker_id: int32 = field("0+")
    cluster_id: str = field("0+")
    incarnation_id: Uuid = field("0+")
    listeners: list[Listener] = field("0+")
    features: list[Feature] = field("0+")
    rack: str | None = field("0+", nullable="0+")
    is_migrating_zk_broker: bool = field("1+")
    log_dirs: list[Uuid] = field("2+", ignorable=True)
    previous_broker_epoch: int64 = field("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, key=62, versions="0-4", flexible="0+"):
    """The broker epoch that the controller assigned."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
