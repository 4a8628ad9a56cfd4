"""Decides whether a broker or a controller may register, and by which records (KIP-631, KIP-919).

The checks come in the order of `ClusterControlManager.registerBroker` in Apache Kafka 4.3.1, so
that a request with two mistakes gets the same error from both.

A new incarnation gets a new epoch and starts fenced. The records that remove its previous
incarnation from ISRs come first and the registration record comes last: a reader that sees only
the first records of the batch never sees a fresh broker in an old ISR. The same incarnation that
registers again, because an answer was lost or a listener changed, keeps its epoch and its state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ....clients.errors import ErrorCode, KafkaError
from ....clients.kafka_uuid import Uuid, uuid_to_string
from ....clients.protocol.schema import Message
from ...metadata.cluster_image import BrokerImage, ClusterImage, Endpoint
from ...metadata.decision import Decision
from ...metadata.metadata_records import (
    METADATA_VERSION_FEATURE,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from .broker_records import broker_endpoints, broker_features

NO_PREVIOUS_EPOCH = -1
"""The previous broker epoch of a broker that found no clean-shutdown file."""

_RESERVED_DIRECTORIES = 100
"""The number of directory ids that are not given to directories (`DirectoryId.RESERVED`)."""

_SECURITY_PROTOCOLS = range(4)
"""PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL by their ids (`SecurityProtocol`)."""

RecordsForShutdown = Callable[[int, bool], Sequence[Message]]
"""The records that end a broker's previous incarnation: its id, and whether it stopped cleanly."""


@dataclass(frozen=True, slots=True)
class BrokerRegistrationData:
    """The fields of a BrokerRegistration request that the controller decides on."""

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    endpoints: Sequence[Endpoint]
    features: Mapping[str, tuple[int, int]]
    directories: Sequence[Uuid]
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    previous_broker_epoch: int = NO_PREVIOUS_EPOCH


@dataclass(frozen=True, slots=True)
class ControllerRegistrationData:
    """The fields of a ControllerRegistration request (KIP-919)."""

    controller_id: int
    incarnation_id: Uuid
    endpoints: Sequence[Endpoint]
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    zk_migration_ready: bool = False


def decide_broker_registration(
    image: ClusterImage,
    request: BrokerRegistrationData,
    next_offset: int,
    has_valid_session: bool,
    records_for_shutdown: RecordsForShutdown,
) -> Decision[int]:
    """Register a broker; the answer is its epoch.

    `next_offset` is the offset of the first record and becomes the epoch of a new incarnation.
    `has_valid_session`: whether the registered incarnation of this broker has a valid session.

    Raises KafkaError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION,
    BROKER_ID_NOT_REGISTERED, INVALID_REGISTRATION and UNSUPPORTED_VERSION.
    """
    registered = image.brokers.get(request.broker_id)
    _check_identity(image, request, registered, has_valid_session)
    _check_protocols(request.endpoints)
    _check_directories(image, request)
    _check_features(image, request.features)
    record = _broker_record(request)
    if registered is not None and registered.incarnation_id == request.incarnation_id:
        record.broker_epoch = registered.epoch
        record.fenced = registered.fenced
        record.in_controlled_shutdown = registered.in_controlled_shutdown
        return Decision([record], registered.epoch)
    assert registered is None or next_offset > registered.epoch, "broker epochs only grow"
    record.broker_epoch = next_offset
    was_clean = is_clean_shutdown(registered, request)
    return Decision([*records_for_shutdown(request.broker_id, was_clean), record], next_offset)


def is_clean_shutdown(registered: BrokerImage | None, request: BrokerRegistrationData) -> bool:
    """Whether the registered incarnation wrote all its records before it ended (KIP-966).

    The clean-shutdown file holds the epoch of the incarnation that wrote it, so an older file does
    not prove that the last incarnation stopped cleanly.
    """
    return registered is not None and registered.epoch == request.previous_broker_epoch


def decide_controller_registration(
    request: ControllerRegistrationData,
) -> Decision[None]:
    """Register a controller with its listeners and feature levels (KIP-919).

    Raises KafkaError(INVALID_REGISTRATION).
    """
    _check_protocols(request.endpoints)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in request.endpoints
        ],
        features=[
            ControllerFeature(
                name=name, min_supported_version=lowest, max_supported_version=highest
            )
            for name, (lowest, highest) in request.features.items()
        ],
    )
    return Decision([record], None)


def decide_unregistration(
    image: ClusterImage, broker_id: int, records_for_removal: Callable[[int], Sequence[Message]]
) -> Decision[None]:
    """Unregister a broker, live or fenced, once it is out of every ISR.

    Raises KafkaError(BROKER_ID_NOT_REGISTERED).
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {broker_id} is not currently registered",
        )
    removed = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return Decision([*records_for_removal(broker_id), removed], None)


def _check_identity(
    image: ClusterImage,
    request: BrokerRegistrationData,
    registered: BrokerImage | None,
    has_valid_session: bool,
) -> None:
    if request.cluster_id != image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if (
        registered is not None
        and has_valid_session
        and registered.incarnation_id != request.incarnation_id
    ):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently "
            "restarted this should self-resolve once the heartbeat manager expires the broker's "
            "session.",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "Controller does not support registering ZK brokers.",
        )


def _check_protocols(endpoints: Sequence[Endpoint]) -> None:
    """Refuse an unknown security protocol, which makes an active controller of Kafka resign."""
    for endpoint in endpoints:
        if endpoint.security_protocol not in _SECURITY_PROTOCOLS:
            raise _invalid(
                f"Unknown security protocol {endpoint.security_protocol} in listener "
                f"{endpoint.listener}"
            )


def _check_directories(image: ClusterImage, request: BrokerRegistrationData) -> None:
    directories = request.directories
    if not directories:
        raise _invalid("No directories specified in request")
    if any(int.from_bytes(each, "big") < _RESERVED_DIRECTORIES for each in directories):
        raise _invalid("Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise _invalid("Duplicate directory ID in request")
    owners = {
        directory: broker.broker_id
        for broker in image.brokers.values()
        for directory in broker.directories
    }
    for directory in directories:
        owner = owners.get(directory, request.broker_id)
        if owner != request.broker_id:
            name = uuid_to_string(directory)
            raise _invalid(f"Broker {owner} is already registered with directory {name}")


def _check_features(image: ClusterImage, features: Mapping[str, tuple[int, int]]) -> None:
    """Check the named features first, then the finalized ones that the request does not name.

    A feature that the request does not name is supported at level 0 only.
    """
    for name, (lowest, highest) in features.items():
        _check_level(name, image.features.get(name, 0), lowest, highest)
    if METADATA_VERSION_FEATURE not in features:
        raise _invalid("Request features do not contain 'metadata.version'")
    for name, level in image.features.items():
        if name not in features:
            _check_level(name, level, 0, 0)


def _check_level(name: str, level: int, lowest: int, highest: int) -> None:
    if not lowest <= level <= highest:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Unable to register because the broker does not support finalized version "
            f"{level} of {name}. The broker wants a version between {lowest} and {highest}, "
            "inclusive.",
        )


def _broker_record(request: BrokerRegistrationData) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        end_points=broker_endpoints(request.endpoints),
        features=broker_features(request.features),
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.directories),
    )


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGISTRATION, why)
