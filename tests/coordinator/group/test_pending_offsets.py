"""Offsets that are committed in transactions: unseen until decided, and then as decided."""

from collections.abc import Callable

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.record.batch import RecordBatch
from tierlog.clients.record.builder import RecordBatchBuilder, build_control_batch
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.coordinator.fetched_offsets import FetchedTopic, fetched_offsets
from tierlog.coordinator.group.group_admin import OffsetsDeletion, group_deletion, offsets_deletion
from tierlog.coordinator.group.group_shard import Forgotten, GroupShard
from tierlog.coordinator.group.prepared_commit import PreparedCommit
from tierlog.coordinator.group_actions import MemberIdentity
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.group_records import OffsetKey, offset_record
from tierlog.coordinator.offsets import (
    UNSTABLE_OFFSET,
    CommitRequest,
    FetchTopic,
    OffsetsProducer,
    OffsetToCommit,
)

from ..group_driver import checked_commit

PRODUCER = OffsetsProducer(7, 0)
OTHER = OffsetsProducer(8, 0)
KEY = OffsetKey("group", "topic", 0)
NOBODY = MemberIdentity("", None)
DAY_MS = 86_400_000


def request(
    offset: int,
    producer: OffsetsProducer | None,
    identity: MemberIdentity = NOBODY,
    generation: int = -1,
) -> CommitRequest:
    wanted = OffsetToCommit("topic", ZERO_UUID, 0, offset, -1, "")
    return CommitRequest("group", identity, generation, None, True, [wanted], producer)


class Log:
    """A shard, and the batches that it has written."""

    def __init__(self) -> None:
        self.shard = GroupShard(0, 0, GroupCoordinatorConfig())
        self.batches: list[bytearray] = []
        self.end = 0

    def commit(self, offset: int, producer: OffsetsProducer | None = None) -> ErrorCode:
        prepared, _ = checked_commit(self.shard, request(offset, producer), 0)
        if not isinstance(prepared, PreparedCommit):
            return prepared
        fields = {} if producer is None else producer._asdict()
        builder = RecordBatchBuilder(
            base_offset=self.end, is_transactional=producer is not None, **fields
        )
        for key, committed in prepared.entries:
            assert committed is not None
            builder.append(0, *offset_record(key, committed))
        self.shard.apply_offsets(prepared.entries, self.end, 0, producer)
        self.write(builder.build())
        return ErrorCode.NONE

    def end_transaction(self, producer: OffsetsProducer, *, commit: bool) -> None:
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        marker = EndTransactionMarker(kind, 0)
        self.write(build_control_batch(marker, 0, base_offset=self.end, **producer._asdict()))
        self.shard.end_transaction(producer.producer_id, commit, 0)

    def write(self, batch: bytearray) -> None:
        self.batches.append(batch)
        self.end += 1

    def fetch(self, *, stable: bool) -> int:
        """The offset; -2 for one that is undecided."""
        pending = self.shard.pending if stable else None
        wanted = [FetchTopic("topic", ZERO_UUID, [0])]
        (topic,) = fetched_offsets(self.shard.offsets, pending, "group", wanted)
        ((_, committed),) = topic.partitions
        return -2 if committed is UNSTABLE_OFFSET else committed.offset

    def check_replay(self) -> None:
        """Another broker that reads the log knows the same."""
        other = Log()
        for batch in self.batches:
            other.shard.replay(RecordBatch(memoryview(batch)))
        for stable in (True, False):
            assert other.fetch(stable=stable) == self.fetch(stable=stable)
        assert other.shard.pending.has(KEY) == self.shard.pending.has(KEY)


def test_offsets_count_when_their_transaction_is_committed() -> None:
    log = Log()
    for offset, commit, after in ((5, True, 5), (9, False, 5), (11, True, 11)):
        before = log.fetch(stable=False)
        assert log.commit(offset, PRODUCER) is ErrorCode.NONE
        assert (log.fetch(stable=False), log.fetch(stable=True)) == (before, -2)
        log.check_replay()
        log.end_transaction(PRODUCER, commit=commit)
        assert (log.fetch(stable=False), log.fetch(stable=True)) == (after, after)
        log.check_replay()


def test_the_later_commit_wins_whoever_made_it() -> None:
    log = Log()
    log.commit(5, PRODUCER)
    log.commit(6)
    assert (log.fetch(stable=False), log.fetch(stable=True)) == (6, -2)
    log.end_transaction(PRODUCER, commit=True)
    assert log.fetch(stable=True) == 6
    log.commit(7, PRODUCER)
    log.commit(8, OTHER)
    log.end_transaction(OTHER, commit=True)
    assert log.fetch(stable=True) == -2
    log.end_transaction(PRODUCER, commit=True)
    assert log.fetch(stable=True) == 8
    log.check_replay()


def test_a_producer_commits_twice_and_the_last_counts() -> None:
    log = Log()
    log.commit(5, PRODUCER)
    log.commit(6, PRODUCER)
    assert log.shard.pending.keys("group") == [KEY]
    log.end_transaction(PRODUCER, commit=True)
    assert log.fetch(stable=True) == 6
    assert not log.shard.pending.has_group("group")
    log.check_replay()


def test_nothing_is_forgotten_while_a_transaction_has_yet_to_decide() -> None:
    log = Log()
    log.commit(5)
    log.commit(6, PRODUCER)
    assert not log.shard.expired(30 * DAY_MS).records
    log.end_transaction(PRODUCER, commit=False)
    assert log.shard.expired(30 * DAY_MS).offsets == [KEY]


def deletion_of_group(shard: GroupShard) -> Forgotten:
    deletion = group_deletion(shard, "group")
    assert isinstance(deletion, Forgotten)
    return deletion


def deletion_of_offset(shard: GroupShard) -> Forgotten:
    prepared = offsets_deletion(shard, "group", [KEY])
    assert isinstance(prepared, OffsetsDeletion)
    return prepared.deletion


def deletion_of_topic(shard: GroupShard) -> Forgotten:
    return shard.offsets_of_topic("topic")


@pytest.mark.parametrize("delete", [deletion_of_group, deletion_of_offset, deletion_of_topic])
@pytest.mark.parametrize("was_committed", [False, True])
def test_a_transaction_does_not_bring_back_what_was_deleted_meanwhile(
    delete: Callable[[GroupShard], Forgotten], was_committed: bool
) -> None:
    """A tombstone deletes undecided offsets, too (`OffsetMetadataManager.replay`)."""
    log = Log()
    if was_committed:
        log.commit(5)
    log.commit(6, PRODUCER)
    forgotten = delete(log.shard)
    assert forgotten.offsets == [KEY]
    builder = RecordBatchBuilder(base_offset=log.end)
    for key, value in forgotten.records:
        builder.append(0, key, value)
    log.write(builder.build())
    log.shard.forget(forgotten, 0)
    assert (log.fetch(stable=True), log.shard.pending.has_group("group")) == (-1, False)
    log.end_transaction(PRODUCER, commit=True)
    assert log.fetch(stable=True) == -1
    log.check_replay()
    log.commit(7, PRODUCER)
    log.end_transaction(PRODUCER, commit=True)
    assert log.fetch(stable=True) == 7


def test_who_consumes_is_asked_only_if_it_says() -> None:
    shard = GroupShard(0, 0, GroupCoordinatorConfig())
    cases = (
        (NOBODY, -1, None),
        (NOBODY, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (MemberIdentity("stranger", None), 1, ErrorCode.UNKNOWN_MEMBER_ID),
    )
    for identity, generation, error in cases:
        prepared, actions = checked_commit(
            shard, request(1, PRODUCER, identity, generation), now_ms=0
        )
        assert actions == []
        assert isinstance(prepared, PreparedCommit) if error is None else prepared is error
    missing = GroupShard(0, 0, GroupCoordinatorConfig())
    prepared, _ = checked_commit(missing, request(1, PRODUCER, NOBODY, 3), now_ms=0)
    assert prepared is ErrorCode.ILLEGAL_GENERATION


def test_all_offsets_of_a_group_are_fetched_with_what_is_undecided() -> None:
    log = Log()
    log.commit(5)
    log.commit(6, PRODUCER)
    (topic,) = fetched_offsets(log.shard.offsets, log.shard.pending, "group", None)
    assert topic == FetchedTopic("topic", ZERO_UUID, [(0, UNSTABLE_OFFSET)])
