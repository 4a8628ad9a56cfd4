"""Many partitions of one leader: one's trouble is its own."""

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.follower.fetch_state import FetchState
from tierlog.replication.follower.followed_partitions import Asked, FollowedPartitions
from tierlog.replication.follower.follower_asks import FetchAsk, Fetched, FollowerOptions, OffsetAsk
from tierlog.replication.partition.fetch_data import EpochEndOffset
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.replication.tiered_replicas import NOW_MS, TIERED, record_batch
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

TOPIC_ID = Uuid(b"topic id, 16 by.")
OPTIONS = FollowerOptions(backoff_ms=1000)


class Followed:
    """Three empty partitions, followed in epoch 0."""

    def __init__(self) -> None:
        files = SimulatedFiles(SimulatedDisk())
        self.logs = LogManager(files, ["/data"], TIERED)
        self.logs.start(NOW_MS)
        self.all = FollowedPartitions(OPTIONS)
        for number in range(3):
            self.all.follow(self.name(number), self.log(number), 0)

    def name(self, number: int) -> TopicIdPartition:
        return TopicIdPartition(TOPIC_ID, "t", number)

    def log(self, number: int) -> UnifiedLog:
        name = TopicPartition("t", number)
        return self.logs.get_or_create_log(name, TOPIC_ID, TIERED, NOW_MS)

    def answer(self, asked: Asked, answer: Fetched, now_ms: int = NOW_MS) -> bool:
        """Whether the offsets of the answer were used."""
        assert isinstance(asked.ask, FetchAsk)
        return self.all.fetched(asked.partition, asked.ask, answer, now_ms)

    def numbers(self, now_ms: int = NOW_MS) -> list[int]:
        """The partitions that ask something now."""
        return [asked.partition.topic_id_partition.partition for asked in self.all.asks(now_ms)]


def one_record(offset: int = 0) -> Fetched:
    batch = bytearray(record_batch(b"x"))
    batch[:8], batch[12:16] = offset.to_bytes(8, "big"), (0).to_bytes(4, "big")
    return Fetched(ErrorCode.NONE, offset + 1, 0, batch)


def nothing(high_watermark: int = 0) -> Fetched:
    return Fetched(ErrorCode.NONE, high_watermark, 0)


def test_each_partition_has_one_question_at_a_time() -> None:
    followed = Followed()
    asks = followed.all.asks(NOW_MS)
    assert [type(asked.ask) for asked in asks] == [FetchAsk] * 3
    assert followed.all.asks(NOW_MS) == []
    assert followed.all.next_due_ms() is None
    followed.answer(asks[1], nothing())
    assert followed.numbers() == [1]


def test_an_answer_that_is_late_or_truncates_leaves_the_offsets_aside() -> None:
    followed = Followed()
    first, second, third = followed.all.asks(NOW_MS)
    assert followed.answer(first, one_record())
    assert not followed.answer(first, nothing(high_watermark=1))
    assert not followed.answer(second, Fetched(diverging=EpochEndOffset(0, 0), high_watermark=1))
    followed.all.unfollow([followed.name(2)])
    assert not followed.answer(third, nothing())


def test_a_pause_keeps_no_other_waiting() -> None:
    followed = Followed()
    first, second, third = followed.all.asks(NOW_MS)
    followed.answer(first, Fetched(ErrorCode.KAFKA_STORAGE_ERROR))
    followed.answer(second, nothing())
    followed.answer(third, Fetched(ErrorCode.FENCED_LEADER_EPOCH))
    assert followed.numbers() == [1]
    assert followed.all.next_due_ms() == NOW_MS + 1000
    assert followed.numbers(NOW_MS + 999) == []
    assert followed.numbers(NOW_MS + 1000) == [0]
    assert followed.all.failed == [followed.name(2)]


def test_what_has_failed_wakes_with_news_of_its_leader() -> None:
    followed = Followed()
    for asked in followed.all.asks(NOW_MS):
        followed.answer(asked, Fetched(ErrorCode.FENCED_LEADER_EPOCH))
    assert len(followed.all.failed) == 3
    followed.all.follow(followed.name(1), followed.log(1), 1)
    assert followed.numbers(NOW_MS) == [1]
    assert followed.all.failed == [followed.name(0), followed.name(2)]


def test_one_partition_in_the_tier_does_not_hold_up_the_fetches_of_others() -> None:
    """(7.7: an answer 109 in a session is the trouble of its partition)"""
    followed = Followed()
    first, second, third = followed.all.asks(NOW_MS)
    followed.answer(first, Fetched(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE))
    followed.answer(second, one_record())
    followed.answer(third, one_record())
    kinds = {
        asked.partition.topic_id_partition.partition: type(asked.ask)
        for asked in followed.all.asks(NOW_MS)
    }
    assert kinds == {0: OffsetAsk, 1: FetchAsk, 2: FetchAsk}


def test_whoever_got_records_goes_to_the_end() -> None:
    followed = Followed()
    first, second, third = followed.all.asks(NOW_MS)
    followed.answer(first, one_record())
    followed.answer(second, nothing())
    followed.answer(third, nothing())
    assert followed.numbers() == [1, 2, 0]


def test_a_request_that_is_lost_is_repeated_for_all_of_its_partitions() -> None:
    followed = Followed()
    asks = followed.all.asks(NOW_MS)
    followed.all.lost(asks, "The connection was closed", NOW_MS)
    assert followed.numbers(NOW_MS + 999) == []
    assert followed.numbers(NOW_MS + 1000) == [0, 1, 2]


def test_partitions_that_left_are_asked_nothing_and_their_answers_are_dropped() -> None:
    followed = Followed()
    first, *_ = followed.all.asks(NOW_MS)
    followed.all.unfollow([followed.name(0)])
    followed.answer(first, one_record())
    assert len(followed.all) == 2
    assert followed.all.get(followed.name(0)) is None
    assert followed.log(0).log_end_offset == 0
    # It is followed again: from another state, perhaps with another log.
    followed.all.follow(followed.name(0), followed.log(0), 0)
    assert followed.numbers() == [0]


def test_the_lag_is_that_of_the_furthest() -> None:
    followed = Followed()
    first, second, _ = followed.all.asks(NOW_MS)
    assert followed.all.max_lag == 0
    followed.answer(first, nothing(7))
    followed.answer(second, one_record()._replace(high_watermark=4))
    assert followed.all.max_lag == 7
    assert first.partition.lag == 7
    assert second.partition.lag == 3
    assert first.partition.state is FetchState.FETCHING
