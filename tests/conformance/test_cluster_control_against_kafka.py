"""The lives of brokers, played to a controller of Kafka and to ours: same answers, same records."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest

import pytest

from tierlog.bench.harness.requests.probe import free_port
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tierlog.clients.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tierlog.clients.protocol.messages.broker_registration import Listener
from tierlog.clients.protocol.messages.controller_registration import ControllerRegistrationRequest
from tierlog.clients.protocol.messages.unregister_broker import UnregisterBrokerRequest

from ..waiting import wait_until
from .lone_controllers import (
    FEATURES,
    UNKNOWN_TOPIC,
    PlayedBrokers,
    both_controllers,
    directory_id,
    features,
)

pytestmark = pytest.mark.requires("java", "mvn")

SESSION_S = 24
ELR = "eligible.leader.replicas.version"
TOPIC, CLUSTER = 2, 4
METADATA_VERSION = {"metadata.version": FEATURES["metadata.version"]}

Both = tuple[PlayedBrokers, PlayedBrokers]


@pytest.fixture
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    controllers = both_controllers(
        tmp_path_factory.mktemp("controllers"),
        (free_port(), free_port()),
        broker_session_timeout_ms=str(SESSION_S * 1_000),
    )
    try:
        for each in controllers:
            each.start()
        kafka, ours = (PlayedBrokers(each) for each in controllers)
        yield kafka, ours
        kafka.close()
        ours.close()
    finally:
        for each in controllers:
            each.stop()


def assert_same(both: Both, story: Callable[[PlayedBrokers], None]) -> None:
    """Play a story to both, and compare what they answered and what they wrote."""
    for side in both:
        side.begin()
        side.epochs.clear()
        story(side)
        for broker_id in sorted(side.epochs):
            side.ask(UnregisterBrokerRequest(broker_id=broker_id), 0)
    kafka, ours = both
    for their, our in zip(kafka.answers, ours.answers, strict=True):
        assert our == their
    for their_record, our_record in zip_longest(kafka.records(), ours.records()):
        assert our_record == their_record


def test_who_registers_and_who_is_refused(both: Both) -> None:
    def story(side: PlayedBrokers) -> None:
        side.beat(9)
        side.register(2, 1)
        # Without a heartbeat there is no session that a second incarnation would have to wait for.
        side.register(2, 2)
        side.beat(2, fence=True)
        assert side.register(2, 3) == 101
        side.beat(2, epoch=1)
        side.beat(2, read=0)
        side.beat(2)
        side.register(2, 2, rack="b")
        for version in range(4):
            side.register(3, 1, version=version)
        side.register(4, directories=[])
        side.register(4, directories=[Uuid(bytes(15) + b"\x07")])
        side.register(4, directories=[directory_id(4), directory_id(4)])
        side.register(4, directories=[directory_id(2)])
        side.register(5, listeners=[])
        twice = [Listener(name="A", host=host, port=1) for host in "hi"]
        side.register(6, listeners=twice)
        side.register(7, features=[])
        side.register(7, features=features(METADATA_VERSION))
        side.register(7, features=features({"metadata.version": (1, 7)}))
        side.register(7, features=features(FEATURES | {"unknown": (3, 1)}))
        side.register(7, is_migrating_zk_broker=True)
        side.register(7, cluster_id="another")
        side.register(7, cluster_id="another", features=[], log_dirs=[])

    assert_same(both, story)


def come_stop_and_go(side: PlayedBrokers, one: int) -> None:
    """Three brokers, of which `one` is the first, are unfenced, fenced, stopped and restarted."""
    two, three = one + 1, one + 2
    for broker_id in (one, two, three):
        side.register(broker_id)
        side.beat(broker_id)
    side.create_topic(f"triples-{one}", [one, two, three])
    side.create_topic(f"pairs-{one}", [two, one], [three, one])
    side.create_topic(f"singles-{one}", [one], [two])
    side.beat(one, fence=True)
    side.beat(one)
    # The leaderships of the second go first; it stops once the others have read so.
    side.beat(three, read=0)
    for _ in range(2):
        assert not side.beat(two, shut_down=True).should_shut_down
    side.beat(one)
    assert not side.beat(two, shut_down=True).should_shut_down
    side.beat(three)
    assert side.beat(two, shut_down=True).should_shut_down
    side.beat(two, shut_down=True)
    side.beat(three, fence=True, shut_down=True)
    side.beat(one)
    side.beat(two)
    side.beat(three)


def test_brokers_come_stop_and_go(both: Both) -> None:
    assert_same(both, lambda side: come_stop_and_go(side, 11))


def test_a_silent_broker_is_fenced_and_another_incarnation_may_come(both: Both) -> None:
    def story(side: PlayedBrokers) -> None:
        for broker_id in (21, 22):
            side.register(broker_id)
            side.beat(broker_id)
        side.create_topic("silent", [21, 22])
        side.create_topic("silent-too", [21])
        clean_epoch = side.epochs[21]
        assert side.register(21, 2) == 101
        answers = list(side.answers)

        def is_fenced() -> bool:
            side.beat(22)
            return any("'broker_id': 21, 'fenced': 1" in each for each in side.records())

        wait_until(is_fenced, 60, "the session ends")
        side.answers[:] = answers
        assert side.register(21, 2, previous_broker_epoch=clean_epoch) == 0
        side.beat(21)

    assert_same(both, story)


def test_a_broker_that_lost_records_is_no_eligible_leader(both: Both) -> None:
    def story(side: PlayedBrokers) -> None:
        for broker_id in (31, 32):
            side.register(broker_id)
            side.beat(broker_id)
        side.create_topic("lossy", [31, 32])
        side.create_topic("lossy-too", [31])
        side.beat(31, fence=True)
        side.beat(32, fence=True)
        # Its session still runs: another incarnation is admitted once it is over.
        answers = list(side.answers)
        wait_until(lambda: side.register(31, 2) == 0, 60, "the session ends")
        side.answers[:] = answers
        side.beat(31)
        side.beat(32)

    assert_same(both, story)


def alter(
    side: PlayedBrokers, sender: int, epochs: tuple[int, int], isr: list[int], **other: object
) -> None:
    """Ask for another ISR of the partition of "isrs", with wrong values if any are given."""
    members = [BrokerState(broker_id=each, broker_epoch=side.epochs[each]) for each in isr]
    partition = PartitionData(
        partition_index=0,
        leader_epoch=epochs[0],
        partition_epoch=epochs[1],
        new_isr_with_epochs=members,
    )
    topic = TopicData(topic_id=side.topic_ids["isrs"], partitions=[partition])
    request = AlterPartitionRequest(
        broker_id=sender, broker_epoch=side.epochs[sender], topics=[topic]
    )
    for name, value in other.items():
        owner = next(each for each in (partition, topic, request) if hasattr(each, name))
        setattr(owner, name, value)
    side.ask(request, 3)


def test_isrs_change_as_leaders_ask(both: Both) -> None:
    def story(side: PlayedBrokers) -> None:
        for broker_id in (41, 42, 43, 44):
            side.register(broker_id)
            side.beat(broker_id)
        side.create_topic("isrs", [41, 42, 43])
        alter(side, 41, (0, 0), [41, 42, 43])
        alter(side, 41, (0, 0), [41, 42], broker_epoch=1)
        alter(side, 41, (1, 0), [41, 42])
        alter(side, 41, (0, 1), [41, 42])
        alter(side, 42, (0, 0), [41, 42])
        alter(side, 41, (0, 0), [41, 42], partition_index=7)
        alter(side, 41, (0, 0), [42])
        alter(side, 41, (0, 0), [41, 44])
        alter(side, 41, (0, 0), [41, 42], leader_recovery_state=1)
        alter(side, 41, (0, 0), [41, 42], topic_id=UNKNOWN_TOPIC)
        alter(side, 41, (0, 0), [41, 42])
        alter(side, 41, (0, 0), [41, 42])
        side.beat(43, fence=True)
        alter(side, 41, (0, 1), [41, 42, 43])
        side.beat(43)
        side.epochs[43] -= 1
        alter(side, 41, (0, 1), [41, 42, 43])
        side.epochs[43] += 1
        alter(side, 41, (0, 1), [41, 42, 43])
        alter(side, 41, (0, 2), [41])
        side.beat(41, fence=True)
        alter(side, 41, (0, 3), [41, 42])
        alter(side, 41, (1, 4), [41, 42])

    assert_same(both, story)


def test_replicas_are_in_directories_and_directories_fail(both: Both) -> None:
    def story(side: PlayedBrokers) -> None:
        for broker_id in (51, 52):
            own = [directory_id(broker_id, number) for number in range(2)]
            side.register(broker_id, directories=own)
            side.beat(broker_id)
        side.create_topic("pairs", [51, 52], [52, 51])
        side.create_topic("singles", [51], [52])
        side.assign(51, directory_id(51, 0), "pairs", 0, 1, 9)
        side.assign(51, directory_id(51, 1), "singles", 0, 1)
        side.assign(52, directory_id(52, 1), "pairs", 0)
        side.assign(52, directory_id(52, 1), "no such topic", 0)
        side.beat(51, offline=[directory_id(51, 0)])
        side.beat(51, offline=[directory_id(51, 0)])
        side.beat(51, offline=[directory_id(99, 0)])
        # Directories that get no new replicas.
        for cordoned in ([directory_id(51, 1)], None, [directory_id(51, 1)], []):
            side.cordon(51, cordoned)
        side.epochs[52] -= 1
        side.assign(52, directory_id(52, 1), "pairs", 0)

    assert_same(both, story)


def test_blocks_of_producer_ids_and_controllers(both: Both) -> None:
    def story(side: PlayedBrokers) -> None:
        side.register(61)
        for broker_id, epoch in ((61, side.epochs[61]), (61, 1), (8, 1), (61, side.epochs[61])):
            side.ask(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch), 0)
        side.ask(
            ControllerRegistrationRequest(
                controller_id=7,
                incarnation_id=Uuid(b"a" * 16),
                listeners=[Listener(name="CONTROLLER", host="h", port=1)],
                features=features(FEATURES),
            ),
            0,
        )
        side.ask(UnregisterBrokerRequest(broker_id=77), 0)

    assert_same(both, story)


def test_brokers_come_stop_and_go_without_eligible_leader_replicas(both: Both) -> None:
    for side in both:
        side.set_level(ELR, 0, 2)
        assert dict(side.answers)
    assert_same(both, lambda side: come_stop_and_go(side, 71))
    for side in both:
        side.set_level(ELR, 1, 1)


def test_min_isr_is_the_clusters_where_there_are_eligible_leaders(both: Both) -> None:
    def story(side: PlayedBrokers) -> None:
        for broker_id in (81, 82, 83):
            side.register(broker_id)
            side.beat(broker_id)
        side.create_topic("of-two", [81, 82, 83], min_isr="2")
        side.create_topic("of-the-cluster", [81, 82, 83])
        side.alter_min_isr(CLUSTER, "", "2")
        side.beat(83, fence=True)
        side.beat(82, fence=True)
        # What is eligible under one minimum need not be so under another.
        side.alter_min_isr(TOPIC, "of-the-cluster", "1")
        side.alter_min_isr(TOPIC, "of-the-cluster", None)
        for replace in (False, True):
            side.alter_min_isr(CLUSTER, "81", "2", replace=replace)
            side.alter_min_isr(CLUSTER, "", None, replace=replace)
            side.alter_min_isr(CLUSTER, "", "3" if replace else "1", replace=replace)
        side.beat(82)
        side.beat(83)
        for broker_id in (83, 82, 81):
            side.beat(broker_id, fence=True)

        # Without the feature every broker may have its own, until the feature returns.
        side.set_level(ELR, 0, 1)
        side.set_level(ELR, 0, 2, only_validate=True)
        side.set_level(ELR, 0, 2)
        side.beat(81)
        side.alter_min_isr(CLUSTER, "81", "2")
        side.alter_min_isr(CLUSTER, "", None)
        side.beat(81, fence=True)
        side.beat(82)
        side.set_level(ELR, 1, 1, only_validate=True)
        without = {name: levels for name, levels in FEATURES.items() if name != ELR}
        side.register(84, features=features(without))
        side.set_level(ELR, 1, 1)
        side.register(84, features=features(FEATURES | {ELR: (2, 3)}))
        side.set_level(ELR, 1, 1)
        side.register(84, features=features(FEATURES | {ELR: (2, 2)}))
        side.set_level(ELR, 1, 1)
        side.register(84)
        for level in (1, 1, 2):
            side.set_level(ELR, level, 1)
        side.register(85, features=features(without))
        side.beat(83)
        side.alter_min_isr(CLUSTER, "", "1")

    assert_same(both, story)


def has_records(side: PlayedBrokers) -> bool:
    return bool(side.records())


def test_the_first_records_are_those_of_the_format_and_the_file(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    written: list[list[str]] = []
    for each in both_controllers(
        tmp_path_factory.mktemp("first"), (free_port(), free_port()), min_insync_replicas="2"
    ):
        each.start()
        try:
            side = PlayedBrokers(each)
            wait_until(partial(has_records, side), 60, "the first records")
            written.append(side.records())
            side.close()
        finally:
            each.stop()
    kafka, ours = written
    # What Kafka serves beyond us, and the bracket around its first records.
    beyond = ("share.version", "streams.version", "TransactionRecord")
    assert ours == [each for each in kafka if not any(word in each for word in beyond)]
    assert any("'name': 'min.insync.replicas', 'value': '2'" in each for each in ours)
