"""The controller's core: nothing acknowledged is lost, whoever leads and whenever."""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.brokers.broker_control import bootstrap_records, min_isr_record
from tierlog.replication.control.controller_config import RECORDS_PER_OPERATION_MAX
from tierlog.replication.control.controller_state import (
    TRANSITIONS,
    ControllerCore,
    ControllerEvent,
    ControllerState,
    refuse_late,
)
from tierlog.replication.metadata.cluster_image import ClusterImage
from tierlog.replication.metadata.committed_reader import CommittedReader
from tierlog.replication.metadata.metadata_log import MetadataLog, open_metadata_log
from tierlog.replication.metadata.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tierlog.storage.directory.log_dir import LogDir
from tierlog.tests.replication.node import DATA, NODE_ID
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

EMPTY = ClusterImage("cluster")


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=Uuid(name.rjust(16).encode()))


class Group:
    """The metadata log of a quorum, its active controller's core, and a standby's.

    The log stands for what a majority has: the high watermark moves when the story says so, and
    another leader may cut what is above it.
    """

    def __init__(self) -> None:
        files = SimulatedFiles(SimulatedDisk())
        files.mkdirs(DATA)
        self.log: MetadataLog = open_metadata_log(LogDir(files, DATA), NODE_ID, 0)
        clock = SimulatedLoop()
        self.storage = self.log.raft_storage(SimulatedEnvironment(clock, "group"))
        clock.close()
        self.high_watermark = 0
        self.epoch = 0
        self.active: ControllerCore[str] = ControllerCore(EMPTY)
        self.standby: ControllerCore[str] = ControllerCore(EMPTY)
        self.active_reader: CommittedReader = self.log.reader_at(0)
        self.standby_reader: CommittedReader = self.log.reader_at(0)
        self.answered: list[str] = []
        self.failed: list[str] = []

    def claim(self) -> None:
        """The active controller is elected; everything in the log is committed before."""
        self.commit(self.log.end_offset)
        self.epoch += 1
        changes = self.active.claim(self.epoch, self.active_reader.is_in_transaction)
        for records in changes:
            self.append(records)

    def append(self, records: Sequence[Message], *waiting: str) -> None:
        delta = self.active.change(records)
        self.active.appended(delta, self.storage.append(records, self.epoch), *waiting)

    def commit(self, offset: int) -> None:
        """The high watermark moves; both controllers are told."""
        self.high_watermark = max(offset, self.high_watermark)
        self.standby.replay(self.standby_reader.read(self.high_watermark))
        if self.active.state is ControllerState.STANDBY:
            self.active.replay(self.active_reader.read(self.high_watermark))
        for change in self.active.commit(self.high_watermark):
            self.answered += change.waiting
        assert self.active.committed == self.standby.committed

    def depose(self, kept: int, *others: Sequence[Message]) -> None:
        """Another is elected, with a log up to `kept`, and commits changes of its own."""
        self.failed += self.active.renounce()
        if self.active.committed.offset >= self.active_reader.offset:
            self.active_reader.skip_to(self.active.committed.offset + 1)
        # The high watermark may be within a batch; that batch is on a majority as a whole or cut.
        self.storage.truncate_to(max(kept, self.standby_reader.offset))
        self.epoch += 1
        for records in others:
            self.storage.append(records, self.epoch)
        self.commit(self.log.end_offset)

    @property
    def topics(self) -> set[str]:
        return set(self.active.newest.topics_by_name)


@pytest.fixture
def group() -> Group:
    group = Group()
    group.claim()
    group.commit(group.log.end_offset)
    return group


@pytest.mark.parametrize("state", ControllerState)
@pytest.mark.parametrize("event", ControllerEvent)
def test_every_state_and_event(state: ControllerState, event: ControllerEvent) -> None:
    after = TRANSITIONS.get((state, event))
    if event is ControllerEvent.STOP or state is ControllerState.STOPPED:
        assert after is ControllerState.STOPPED
    elif event is ControllerEvent.DISK_FAILED or state is ControllerState.FAILED:
        assert after is ControllerState.FAILED
    elif event is ControllerEvent.DEPOSED:
        assert after is ControllerState.STANDBY
    else:
        # Nobody is elected twice without losing the lead between.
        is_standby = state is ControllerState.STANDBY
        assert after is (ControllerState.ACTIVE if is_standby else None)


def test_an_empty_log_begins_with_the_bootstrap_records() -> None:
    core: ControllerCore[str] = ControllerCore(EMPTY)
    # All brokers have the same min.insync.replicas where there are eligible leader replicas.
    min_isr = min_isr_record("", "2")
    changes = core.claim(1, is_in_transaction=False, min_isr="2")
    assert changes == [[*bootstrap_records(), min_isr]]


def test_an_empty_log_begins_with_what_the_directory_was_formatted_with() -> None:
    core: ControllerCore[str] = ControllerCore(EMPTY)
    formatted = bootstrap_records()[:1]  # without eligible leader replicas
    assert core.claim(1, is_in_transaction=False, formatted=formatted) == [formatted]


def test_an_open_metadata_transaction_is_aborted_before_anything_else(group: Group) -> None:
    """Otherwise the next leader's records would belong to it (KIP-868)."""
    group.depose(0, [BeginTransactionRecord(), topic("half")])
    group.claim()
    group.append([topic("next")], "next")
    group.commit(group.log.end_offset)
    assert group.topics == {"next"}
    assert group.answered == ["next"]
    again: ControllerCore[str] = ControllerCore(EMPTY)
    again.replay(group.log.reader_at(0).read(group.log.end_offset))
    assert again.committed == group.active.committed


def test_a_decision_sees_those_before_it_and_is_answered_when_it_is_committed(group: Group) -> None:
    group.append([topic("a")], "a")
    middle = group.log.end_offset
    group.append([RemoveTopicRecord(topic_id=topic("a").topic_id), topic("b")], "b")
    assert group.topics == {"b"}
    group.commit(middle)
    assert group.answered == ["a"]
    assert set(group.active.committed.topics_by_name) == {"a"}
    group.commit(group.log.end_offset)
    assert group.answered == ["a", "b"]


def test_a_batch_of_which_a_part_is_below_the_high_watermark_is_not_committed(group: Group) -> None:
    group.append([topic("a"), topic("b")], "both")
    assert group.active.commit(group.log.end_offset - 1) == []
    group.commit(group.log.end_offset)
    assert group.answered == ["both"]


def test_an_answer_that_saw_a_pending_change_waits_for_it(group: Group) -> None:
    assert not group.active.wait("at once")
    group.append([topic("a")], "a")
    assert group.active.wait("reads a")
    group.append([topic("b")], "b")
    group.commit(group.active.committed.offset + 2)
    assert group.answered == ["a", "reads a"]
    group.commit(group.log.end_offset)
    assert group.answered == ["a", "reads a", "b"]


def test_who_loses_the_lead_refuses_all_who_wait_and_goes_back(group: Group) -> None:
    group.append([topic("kept")], "kept")
    group.commit(group.log.end_offset)
    group.append([topic("cut")], "cut")
    assert group.active.wait("reads cut")
    group.depose(group.high_watermark, [topic("other")])
    assert group.failed == ["cut", "reads cut"]
    assert group.topics == {"kept", "other"}
    group.claim()
    group.append([topic("cut")], "cut again")
    group.commit(group.log.end_offset)
    assert group.answered == ["kept", "cut again"]


def test_what_was_refused_for_a_lost_lead_may_be_committed_by_the_next_leader(group: Group) -> None:
    group.append([topic("found")], "found")
    group.depose(group.log.end_offset)
    assert group.failed == ["found"]
    assert group.topics == {"found"}


def test_after_a_failure_nothing_is_claimed_any_more(group: Group) -> None:
    group.append([topic("a")], "a")
    assert group.active.fail() == ["a"]
    assert group.active.newest == group.active.committed
    assert group.active.claim(group.epoch + 1, is_in_transaction=False) == ()
    assert group.active.state is ControllerState.FAILED


def test_pending_changes_of_a_stopped_controller_may_still_be_committed(group: Group) -> None:
    group.append([topic("a")], "a")
    middle = group.log.end_offset
    group.append([topic("b")], "b")
    group.active.stop()
    group.commit(middle)
    assert group.answered == ["a"]
    assert group.active.abandon() == ["b"]
    assert group.topics == {"a"}


def test_one_operation_writes_ten_thousand_records_at_most(group: Group) -> None:
    records = [NoOpRecord()] * RECORDS_PER_OPERATION_MAX
    group.active.change(records)
    with pytest.raises(KafkaError) as refused:
        group.active.change([*records, NoOpRecord()])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_what_is_due_is_begun_and_what_is_late_is_not() -> None:
    refuse_late(deadline=1.5, now=1.5)
    with pytest.raises(KafkaError) as refused:
        refuse_late(deadline=1.5, now=1.6)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_a_reader_goes_on_within_a_transaction(group: Group, step: int) -> None:
    """However far each high watermark is, the same images come out at the end of each batch."""
    batches: list[list[Message]] = [
        [topic("a"), BeginTransactionRecord(), topic("b")],
        [topic("c")],
        [EndTransactionRecord(), topic("d"), BeginTransactionRecord()],
        [topic("e")],
        [AbortTransactionRecord()],
    ]
    seen: list[tuple[set[str], bool]] = []
    ends: list[int] = []
    for records in batches:
        group.storage.append(records, group.epoch)
        ends.append(group.log.end_offset)
    reader = group.log.reader_at(group.high_watermark)
    core: ControllerCore[str] = ControllerCore(group.active.committed)
    for end in [*ends[step - 1 : -1 : step], ends[-1]]:
        core.replay(reader.read(end))
        assert reader.offset == end
        seen.append((set(core.committed.topics_by_name), reader.is_in_transaction))
    expected = [({"a"}, True), ({"a"}, True), (set("abcd"), True), (set("abcd"), True)]
    assert seen[:-1] == expected[step - 1 :: step][: len(seen) - 1]
    assert seen[-1] == (set("abcd"), False)
    assert core.committed.offset == group.log.end_offset - 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["decide", "refuse", "read", "commit", "depose", "open", "claim"]),
        st.integers(0, 9),
    ),
    max_size=40,
)


@given(STEPS)
def test_nothing_acknowledged_is_lost_and_nothing_refused_appears(
    steps: list[tuple[str, int]],
) -> None:
    group = Group()
    # What a reader saw, by its name.
    readers: dict[str, ClusterImage] = {}
    refused: set[str] = set()
    for number, (what, value) in enumerate(steps):
        name = f"{what}{number}"
        is_active = group.active.is_active
        match what:
            case "decide" if is_active:
                group.append([topic(name)], name)
            case "refuse" if is_active:
                with pytest.raises(KafkaError):
                    group.active.change([topic(name), RemoveTopicRecord(topic_id=Uuid(b"?" * 16))])
                refused.add(name)
            case "read" if is_active:
                readers[name] = group.active.newest
                if not group.active.wait(name):
                    assert group.active.newest == group.standby.committed
                    group.answered.append(name)
            case "commit" if is_active:
                behind = group.log.end_offset - group.high_watermark
                group.commit(group.high_watermark + behind * value // 9)
            case "depose" if is_active:
                behind = group.log.end_offset - group.high_watermark
                # The next leader's log ends with one of the batches.
                kept = group.log.end_offset if value % 2 else group.high_watermark
                assert behind >= 0
                group.depose(kept, [topic(name)])
            case "open" if is_active:
                group.depose(group.log.end_offset, [BeginTransactionRecord(), topic(name)])
                refused.add(name)
            case "claim" if not is_active:
                group.claim()
            case _:
                pass
        there = set(group.standby.committed.topics_by_name)
        assert {each for each in group.answered if each not in readers} <= there
        assert not refused & (there | group.topics)
        for each in readers.keys() & set(group.answered):
            assert readers[each].offset <= group.standby.committed.offset
            assert readers[each].topics_by_name.keys() <= there
    again: ControllerCore[str] = ControllerCore(EMPTY)
    again.replay(group.log.reader_at(0).read(group.high_watermark))
    assert again.committed == group.active.committed
