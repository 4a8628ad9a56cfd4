"""Whatever was answered as done is in the log: folding the log anywhere gives the same state."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.record.batch import RecordBatch
from tierlog.clients.record.builder import RecordBatchBuilder, build_control_batch
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.coordinator.classic.group_state import GroupState
from tierlog.coordinator.group.group_shard import GroupShard
from tierlog.coordinator.group.prepared_commit import PreparedCommit
from tierlog.coordinator.group_actions import (
    Action,
    CompleteJoin,
    GroupSnapshot,
    MemberIdentity,
    StoreGroup,
)
from tierlog.coordinator.group_config import GroupCoordinatorConfig
from tierlog.coordinator.group_records import (
    CommittedOffset,
    GroupRecord,
    OffsetKey,
    group_record,
    offset_record,
)
from tierlog.coordinator.led_shards import SHARD_ERRORS, TRANSITIONS, ShardEvent, ShardState
from tierlog.coordinator.offsets import CommitRequest, FetchTopic, OffsetToCommit

from ..group_driver import checked_commit, join_request

CONFIG = GroupCoordinatorConfig()
TOPIC_ID = Uuid(bytes(range(16)))
OTHER_ID = Uuid(bytes(range(1, 17)))
NOW_MS = 1_000_000
DAY_MS = 86_400_000


class Replica:
    """A shard and the log that it writes."""

    def __init__(self) -> None:
        self.shard = GroupShard(0, 0, CONFIG)
        self.log: list[GroupRecord] = []
        self.now_ms = NOW_MS

    def commit(self, group_id: str, topic: str, partition: int, offset: int) -> ErrorCode:
        wanted = OffsetToCommit(topic, TOPIC_ID, partition, offset, -1, None)
        return self.send(commit_of(group_id, wanted))

    def send(self, request: CommitRequest) -> ErrorCode:
        prepared, actions = checked_commit(self.shard, request, self.now_ms)
        self.carry_out(actions)
        if isinstance(prepared, ErrorCode):
            return prepared
        self._write(prepared)
        return prepared.errors[0]

    def _write(self, prepared: PreparedCommit) -> None:
        self.shard.apply_offsets(prepared.entries, len(self.log), self.now_ms)
        for key, committed in prepared.entries:
            assert committed is not None
            self.log.append(offset_record(key, committed))

    def found(self, group_id: str) -> None:
        """Someone without an id asks to join: the group is there from then on."""
        request = join_request()._replace(group_id=group_id)
        self.carry_out(self.shard.join(request, 1, self.now_ms))

    def sweep(self) -> None:
        """Forget what has expired."""
        forgotten = self.shard.expired(self.now_ms)
        self.log.extend(forgotten.records)
        self.shard.forget(forgotten, self.now_ms)

    def delete_topic(self, topic: str) -> None:
        forgotten = self.shard.offsets_of_topic(topic)
        self.log.extend(forgotten.records)
        self.shard.forget(forgotten, self.now_ms)

    def carry_out(self, actions: list[Action]) -> None:
        self.log += [
            group_record(each.snapshot) for each in actions if isinstance(each, StoreGroup)
        ]

    def folded(self) -> GroupShard:
        """What somebody else makes of the log."""
        return fold(self.log)

    def state(self) -> tuple[set[str], dict[OffsetKey, CommittedOffset | None]]:
        return state_of(self.shard)


def fold(log: list[GroupRecord]) -> GroupShard:
    shard = GroupShard(0, 1, CONFIG)
    for position, (key, value) in enumerate(log):
        builder = RecordBatchBuilder(base_offset=position)
        builder.append(NOW_MS, key, value)
        shard.replay(RecordBatch(memoryview(builder.build())))
    return shard


def state_of(shard: GroupShard) -> tuple[set[str], dict[OffsetKey, CommittedOffset | None]]:
    keys = [key for group_id in shard.groups for key in shard.offsets.keys(group_id)]
    return set(shard.groups), {key: shard.offsets.get(key) for key in keys}


def commit_of(group_id: str, *offsets: OffsetToCommit) -> CommitRequest:
    return CommitRequest(group_id, MemberIdentity("", None), -1, None, True, offsets)


GROUPS = st.sampled_from(["g", "h"])
TOPICS = st.sampled_from(["t", "u"])
OPERATIONS = st.one_of(
    st.tuples(st.just("commit"), GROUPS, TOPICS, st.integers(0, 2), st.integers(0, 2**63 - 1)),
    st.tuples(st.just("found"), GROUPS),
    st.tuples(st.just("delete"), TOPICS),
    st.tuples(st.just("wait"), st.integers(0, 8)),
)


@given(st.lists(OPERATIONS, max_size=30))
def test_the_folded_log_is_the_state(operations: list[tuple[object, ...]]) -> None:
    replica = Replica()
    for operation in operations:
        match operation:
            case ("commit", str(group), str(topic), int(partition), int(offset)):
                replica.commit(group, topic, partition, offset)
            case ("found", str(group)):
                replica.found(group)
            case ("delete", str(topic)):
                replica.delete_topic(topic)
            case ("wait", int(days)):
                replica.now_ms += days * DAY_MS
                replica.sweep()
            case _:
                raise AssertionError(operation)
        assert state_of(replica.folded()) == replica.state()


def test_a_group_nobody_has_is_founded_by_a_commit_without_generation() -> None:
    replica = Replica()
    assert replica.commit("g", "t", 0, 42) is ErrorCode.NONE
    group = replica.folded().groups["g"]
    assert group.is_simple
    assert group.state is GroupState.EMPTY


@pytest.mark.parametrize(
    ("knows", "error"),
    [(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.ILLEGAL_GENERATION)],
)
def test_a_member_of_a_group_that_is_gone_hears_it_in_its_versions_words(
    knows: bool, error: ErrorCode
) -> None:
    wanted = OffsetToCommit("t", TOPIC_ID, 0, 42, -1, None)
    request = commit_of("g", wanted)._replace(generation=3, knows_group_id_not_found=knows)
    assert Replica().send(request) is error


def test_metadata_that_is_too_long_is_refused_partition_by_partition() -> None:
    replica = Replica()
    limit = CONFIG.offset_metadata_max_bytes
    offsets = [
        OffsetToCommit("t", TOPIC_ID, 0, 1, -1, "x" * limit),
        OffsetToCommit("t", TOPIC_ID, 1, 1, -1, "x" * (limit + 1)),
        # Java counts a character beyond the first 65,536 as two.
        OffsetToCommit("t", TOPIC_ID, 2, 1, -1, "🎈" * (limit // 2 + 1)),
        OffsetToCommit("t", TOPIC_ID, 3, 1, -1, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    prepared, _ = checked_commit(replica.shard, commit_of("g", *offsets), NOW_MS)
    assert isinstance(prepared, PreparedCommit)
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert prepared.errors == [
        ErrorCode.NONE,
        too_large,
        too_large,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [entry.key.partition for entry in prepared.entries] == [0]


def test_offsets_of_a_topic_that_was_made_again_are_not_shown() -> None:
    replica = Replica()
    replica.commit("g", "t", 0, 42)

    def offset(topic_id: Uuid) -> int:
        return replica.shard.offsets.fetch("g", FetchTopic("t", topic_id, [0]))[0].offset

    assert offset(TOPIC_ID) == 42
    assert offset(ZERO_UUID) == 42
    assert offset(OTHER_ID) == -1


def test_a_member_id_without_a_group_is_unknown() -> None:
    actions = Replica().shard.join(join_request("anna"), 7, NOW_MS)
    assert isinstance(actions[0], CompleteJoin)
    assert actions[0].result.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_idle_group_goes_unless_somebody_joins_meanwhile() -> None:
    replica = Replica()
    replica.commit("g", "t", 0, 42)
    replica.commit("h", "t", 0, 42)
    forgotten = replica.shard.expired(NOW_MS + 7 * DAY_MS)
    assert set(forgotten.group_ids) == {"g", "h"}
    replica.found("g")
    replica.shard.forget(forgotten, NOW_MS)
    assert set(replica.shard.groups) == {"g"}


def transactional(record: GroupRecord, offset: int) -> RecordBatch:
    builder = RecordBatchBuilder(
        base_offset=offset, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    builder.append(NOW_MS, record.key, record.value)
    return RecordBatch(memoryview(builder.build()))


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("later_commit", [True, False])
def test_offsets_of_a_transaction_count_once_it_is_committed(
    commits: bool, later_commit: bool
) -> None:
    key = OffsetKey("g", "t", 0)

    def written(offset: int) -> GroupRecord:
        return offset_record(key, CommittedOffset(offset, -1, "", NOW_MS, None, TOPIC_ID))

    shard = GroupShard(0, 0, CONFIG)
    shard.replay(transactional(written(42), 0))
    assert shard.offsets.get(key) is None
    if later_commit:
        builder = RecordBatchBuilder(base_offset=1)
        builder.append(NOW_MS, *written(43))
        shard.replay(RecordBatch(memoryview(builder.build())))
    kind = ControlRecordType.COMMIT if commits else ControlRecordType.ABORT
    marker = build_control_batch(
        EndTransactionMarker(kind, 0), timestamp=NOW_MS, base_offset=2, producer_id=9
    )
    shard.replay(RecordBatch(memoryview(marker)))
    found = shard.offsets.get(key)
    expected = 43 if later_commit else 42 if commits else None
    assert (None if found is None else found.offset) == expected


def test_records_of_a_newer_kafka_are_passed_over_and_broken_ones_are_not() -> None:
    shard = fold([GroupRecord(b"\0\x63\0\1g", b"\0\0whatever")])
    assert shard.groups == {}
    for record in (
        GroupRecord(b"\0", b""),
        GroupRecord(b"\0\1\0\1g", b""),
        GroupRecord(b"\0\2\0\1g", b"\0\x09"),
        GroupRecord(b"\0\2\0\1g", b""),
    ):
        with pytest.raises(KafkaError):
            fold([record])


def test_groups_of_older_kafkas_are_read() -> None:
    # Version 0 has no rebalance timeout, no instance id and no timestamp.
    text = {name: len(name).to_bytes(2, "big") + name.encode() for name in ("consumer", "range")}
    member = b"\0\1a\0\1c\0\2/h" + (9_000).to_bytes(4, "big") + b"\0\0\0\0" * 2
    value = b"\0\0" + text["consumer"] + b"\0\0\0\7" + text["range"] + b"\0\1a\0\0\0\1" + member
    group = fold([GroupRecord(b"\0\2\0\1g", value)]).groups["g"]
    snapshot = group.snapshot({"a": b""})
    assert isinstance(snapshot, GroupSnapshot)
    assert (snapshot.generation, snapshot.leader, group.state) == (7, "a", GroupState.STABLE)
    saved = snapshot.members[0]
    assert (saved.rebalance_timeout_ms, saved.session_timeout_ms) == (9_000, 9_000)


def test_offsets_of_before_kafka_0_9_are_read() -> None:
    key = b"\0\0" + b"\0\1g\0\1t" + (3).to_bytes(4, "big")
    value = b"\0\0" + (42).to_bytes(8, "big") + b"\0\0" + NOW_MS.to_bytes(8, "big")
    found = fold([GroupRecord(key, value)]).offsets.get(OffsetKey("g", "t", 3))
    assert found is not None
    assert (found.offset, found.leader_epoch, found.commit_timestamp_ms) == (42, -1, NOW_MS)


@pytest.mark.parametrize("state", ShardState)
@pytest.mark.parametrize("event", ShardEvent)
def test_a_shard_is_loaded_once_or_never(state: ShardState, event: ShardEvent) -> None:
    shard = GroupShard(0, 0, CONFIG)
    shard.state = state
    if state is not ShardState.LOADING:
        assert (state, event) not in TRANSITIONS
        with pytest.raises(KeyError):
            shard.apply(event)
        return
    shard.apply(event)
    loaded = event is ShardEvent.LOADED
    assert shard.state is (ShardState.ACTIVE if loaded else ShardState.FAILED)
    assert SHARD_ERRORS.keys() == set(ShardState)
