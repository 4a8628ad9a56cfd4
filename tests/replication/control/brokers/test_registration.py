"""Who may register, in which order it is checked, and which records say so."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.brokers.registration import (
    BrokerRegistrationData,
    ControllerRegistrationData,
    decide_broker_registration,
    decide_controller_registration,
    decide_unregistration,
)
from tierlog.replication.control.controller_config import Decision
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage, Endpoint
from tierlog.replication.metadata.metadata_records import (
    METADATA_VERSION,
    METADATA_VERSION_FEATURE,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

FIRST, SECOND = Uuid(b"1" * 16), Uuid(b"2" * 16)
DIRECTORY = Uuid(b"d" * 16)
ENDPOINT = Endpoint("PLAINTEXT", "one.example", 9092, 0)
REQUEST = BrokerRegistrationData(
    1, "cluster", FIRST, [ENDPOINT], {METADATA_VERSION_FEATURE: (7, METADATA_VERSION)}, [DIRECTORY]
)


def cluster(*records: Message) -> ClusterImage:
    """A cluster after its bootstrap record and the given ones."""
    delta = ClusterDelta(ClusterImage("cluster"))
    bootstrap = FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=METADATA_VERSION)
    delta.replay_all([bootstrap, *records])
    return delta.apply(len(records), 1)


def register(
    image: ClusterImage, request: BrokerRegistrationData, has_valid_session: bool = False
) -> tuple[Decision[int], list[tuple[int, bool]]]:
    """What is decided, and which shutdowns the decision asked records for."""
    shutdowns: list[tuple[int, bool]] = []

    def records_for_shutdown(broker_id: int, was_clean: bool) -> list[Message]:
        shutdowns.append((broker_id, was_clean))
        return [NoOpRecord()]

    decision = decide_broker_registration(
        image, request, 10 + image.offset, has_valid_session, records_for_shutdown
    )
    return decision, shutdowns


def after(request: BrokerRegistrationData = REQUEST) -> ClusterImage:
    """A cluster in which the broker has registered."""
    return cluster(*register(cluster(), request)[0].records)


def test_a_new_broker_is_fenced_and_its_record_comes_last() -> None:
    decision, shutdowns = register(cluster(), REQUEST)
    *_, record = decision.records
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, decision.answer) == (10, True, 10)
    assert (record.log_dirs, record.end_points[0].port) == ([DIRECTORY], 9092)
    assert shutdowns == [(1, False)]


@pytest.mark.parametrize(("previous", "was_clean"), [(10, True), (9, False), (-1, False)])
def test_a_new_incarnation_was_clean_if_it_knows_the_registered_epoch(
    previous: int, was_clean: bool
) -> None:
    request = replace(REQUEST, incarnation_id=SECOND, previous_broker_epoch=previous)
    decision, shutdowns = register(after(), request)
    assert shutdowns == [(1, was_clean)]
    assert decision.answer > 10


def test_the_same_incarnation_amends_its_registration_and_keeps_epoch_and_state() -> None:
    unfence = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1)
    image = cluster(*register(cluster(), REQUEST)[0].records, unfence)
    moved = replace(REQUEST, endpoints=[ENDPOINT._replace(port=9999)])
    decision, shutdowns = register(image, moved, has_valid_session=True)
    (record,) = decision.records
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.end_points[0].port) == (10, False, 9999)
    assert (decision.answer, shutdowns) == (10, [])


def test_another_incarnation_waits_for_the_end_of_the_session() -> None:
    other = replace(REQUEST, incarnation_id=SECOND)
    with pytest.raises(KafkaError) as refused:
        register(after(), other, has_valid_session=True)
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register(after(), other)[0].answer > 10


MISTAKES: list[
    tuple[Callable[[BrokerRegistrationData], BrokerRegistrationData], ErrorCode, str]
] = [
    (
        lambda request: replace(request, cluster_id="other"),
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        "Expected cluster ID cluster, but got cluster ID other",
    ),
    (
        lambda request: replace(request, is_migrating_zk_broker=True),
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Controller does not support registering ZK brokers.",
    ),
    (
        lambda request: replace(request, directories=[]),
        ErrorCode.INVALID_REGISTRATION,
        "No directories specified in request",
    ),
    (
        lambda request: replace(request, directories=[Uuid(bytes(15) + b"\x63")]),
        ErrorCode.INVALID_REGISTRATION,
        "Reserved directory ID in request",
    ),
    (
        lambda request: replace(request, directories=[FIRST, FIRST]),
        ErrorCode.INVALID_REGISTRATION,
        "Duplicate directory ID in request",
    ),
    (
        lambda request: replace(request, broker_id=2),
        ErrorCode.INVALID_REGISTRATION,
        "Broker 1 is already registered with directory ZGRkZGRkZGRkZGRkZGRkZA",
    ),
    (
        lambda request: replace(request, features={METADATA_VERSION_FEATURE: (1, 7)}),
        ErrorCode.UNSUPPORTED_VERSION,
        f"Unable to register because the broker does not support finalized version "
        f"{METADATA_VERSION} of metadata.version. The broker wants a version between 1 and 7, "
        "inclusive.",
    ),
    (
        lambda request: replace(request, features={}),
        ErrorCode.INVALID_REGISTRATION,
        "Request features do not contain 'metadata.version'",
    ),
]


@pytest.mark.parametrize(("mistake", "code", "sentence"), MISTAKES)
def test_a_mistake_is_refused_in_kafkas_words(
    mistake: Callable[[BrokerRegistrationData], BrokerRegistrationData],
    code: ErrorCode,
    sentence: str,
) -> None:
    with pytest.raises(KafkaError) as refused:
        register(after(), mistake(REQUEST))
    assert refused.value.code is code
    assert sentence in str(refused.value)


def test_a_finalized_feature_that_the_broker_does_not_name_is_unsupported() -> None:
    image = cluster(FeatureLevelRecord(name="group.version", feature_level=1))
    with pytest.raises(KafkaError) as refused:
        register(image, REQUEST)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_controller_registers_its_listeners() -> None:
    request = ControllerRegistrationData(3000, FIRST, [ENDPOINT], {"group.version": (0, 1)})
    (record,) = decide_controller_registration(request).records
    assert isinstance(record, RegisterControllerRecord)
    assert (record.controller_id, record.end_points[0].host) == (3000, "one.example")
    assert record.features[0].max_supported_version == 1


def test_a_broker_is_unregistered_after_it_has_left_its_partitions() -> None:
    first, last = decide_unregistration(after(), 1, lambda _: [NoOpRecord()]).records
    assert isinstance(first, NoOpRecord)
    assert isinstance(last, UnregisterBrokerRecord)
    assert last.broker_epoch == 10
    with pytest.raises(KafkaError, match="Broker ID 2 is not currently registered"):
        decide_unregistration(after(), 2, lambda _: [])
