"""The way of a marker to its partition's leader, as a table and as stories."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.transaction.marker_queues import NO_LEADER, MarkerQueues, Settled
from tierlog.coordinator.transaction.transaction_markers import Marker

E = ErrorCode
MARKER = Marker(producer_id=7, producer_epoch=1, coordinator_epoch=3, is_commit=True, version=2)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Story:
    """Queues over leaders that a test names."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int | None] = {A0: 1, A1: 1, B0: 2}
        self.queues = MarkerQueues(self.leaders.get)

    def sent(self) -> dict[int, dict[int, set[TopicPartition]]]:
        """Send all that can be sent: by broker and transaction."""
        return {
            broker: {each.number: set(each.partitions) for each in self.queues.take(broker)}
            for broker in self.queues.ready()
        }


@pytest.mark.parametrize(
    ("error", "is_settled"),
    [
        (E.NONE, True),
        (E.INVALID_PRODUCER_EPOCH, True),
        (E.TRANSACTION_COORDINATOR_FENCED, True),
        # Another broker may not have learned of the partition yet.
        (E.UNKNOWN_TOPIC_OR_PARTITION, False),
        (E.NOT_LEADER_OR_FOLLOWER, False),
        (E.NOT_ENOUGH_REPLICAS, False),
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, False),
        (E.REQUEST_TIMED_OUT, False),
        (E.KAFKA_STORAGE_ERROR, False),
        (E.COORDINATOR_LOAD_IN_PROGRESS, False),
        (E.UNKNOWN_SERVER_ERROR, False),
        (None, False),
    ],
)
def test_what_ends_a_marker(error: ErrorCode | None, is_settled: bool) -> None:
    story = Story()
    assert story.queues.add(1, MARKER, [A0]) == []
    assert story.sent() == {1: {1: {A0}}}
    settled = story.queues.answered(1, {} if error is None else {(1, A0): error})
    if is_settled and error is not None:
        assert settled == [Settled(1, {A0: error})]
        assert not story.queues.has_apart
    else:
        assert settled == []
        assert story.queues.requeue() == []
        assert story.sent() == {1: {1: {A0}}}


def test_a_transaction_is_settled_with_its_last_partition() -> None:
    story = Story()
    story.queues.add(1, MARKER, [A0, A1, B0])
    assert story.sent() == {1: {1: {A0, A1}}, 2: {1: {B0}}}
    assert story.queues.answered(2, {(1, B0): E.NONE}) == []
    assert story.queues.answered(1, {(1, A0): E.NONE}) == []
    story.queues.requeue()
    assert story.sent() == {1: {1: {A1}}}
    assert story.queues.answered(1, {(1, A1): E.NONE}) == [
        Settled(1, {A0: E.NONE, A1: E.NONE, B0: E.NONE})
    ]
    assert len(story.queues) == 0


def test_one_request_is_in_flight_and_the_next_has_all_that_waits() -> None:
    story = Story()
    story.queues.add(1, MARKER, [A0])
    assert story.sent() == {1: {1: {A0}}}
    story.queues.add(2, MARKER, [A0])
    story.queues.add(3, MARKER, [A1])
    assert story.sent() == {}
    story.queues.answered(1, {(1, A0): E.NONE})
    assert story.sent() == {1: {2: {A0}, 3: {A1}}}


def test_a_marker_follows_its_partition() -> None:
    story = Story()
    story.queues.add(1, MARKER, [A0])
    story.sent()
    story.leaders[A0] = 2
    story.queues.answered(1, {(1, A0): E.NOT_LEADER_OR_FOLLOWER})
    story.queues.requeue()
    assert story.sent() == {2: {1: {A0}}}


def test_a_partition_without_a_leader_waits_for_one() -> None:
    story = Story()
    story.leaders[A0] = NO_LEADER
    story.queues.add(1, MARKER, [A0])
    story.queues.requeue()
    assert story.sent() == {}
    story.leaders[A0] = 2
    story.queues.requeue()
    assert story.sent() == {2: {1: {A0}}}


def test_only_the_own_metadata_says_that_a_partition_is_deleted() -> None:
    story = Story()
    story.queues.add(1, MARKER, [A0])
    story.sent()
    del story.leaders[A0]
    assert story.queues.answered(1, {(1, A0): E.UNKNOWN_TOPIC_OR_PARTITION}) == []
    assert story.queues.requeue() == [Settled(1, {A0: E.UNKNOWN_TOPIC_OR_PARTITION})]


def test_a_dropped_transaction_is_sent_and_settled_no_more() -> None:
    story = Story()
    story.leaders[A1] = NO_LEADER
    story.queues.add(1, MARKER, [A0, A1, B0])
    assert story.queues.take(1)
    story.queues.drop(1)
    assert not story.queues.has_apart
    assert story.sent() == {}
    assert story.queues.answered(1, {(1, A0): E.NOT_LEADER_OR_FOLLOWER}) == []
    assert not story.queues.has_apart
