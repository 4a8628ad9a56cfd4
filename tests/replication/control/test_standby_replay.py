"""A standby replays a long log in many turns of the event loop, and shows only whole changes."""

from collections.abc import Sequence

import pytest

from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.controller_state import ControllerCore, Replayed
from tierlog.replication.control.standby_replay import (
    RECORDS_A_PUBLICATION,
    STEPS_A_TURN,
    StandbyReplay,
)
from tierlog.replication.metadata import committed_reader
from tierlog.replication.metadata.committed_reader import RECORDS_A_STEP
from tierlog.replication.metadata.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    PartitionRecord,
    TopicRecord,
    decode_record,
)
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

from ..metadata.opened_metadata import DATA, EMPTY, Metadata, id_of

MANY = 3 * STEPS_A_TURN * RECORDS_A_STEP


def topic(name: str, partitions: int = 0) -> Sequence[Message]:
    return [
        TopicRecord(name=name, topic_id=id_of(name)),
        *(PartitionRecord(topic_id=id_of(name), partition_id=each) for each in range(partitions)),
    ]


class Standby:
    """A standby of a log that another node writes, turn by turn."""

    def __init__(self) -> None:
        files = SimulatedFiles(SimulatedDisk())
        files.mkdirs(DATA)
        self.metadata = Metadata(files)
        self.metadata.log.become_leader(0)
        self.log = self.metadata.log
        self.core: ControllerCore[None] = ControllerCore(EMPTY)
        self.published: list[Replayed] = []
        self.replay = StandbyReplay(self.core, self.log, self.published.append)

    def append(self, *records: Message) -> None:
        self.log.append(records, 0)

    def turn(self) -> bool:
        return self.replay.go_on(self.log.end_offset)

    def turns(self) -> int:
        """Go on to the end; returns after how many turns."""
        count = 1
        while not self.turn():
            count += 1
        return count

    @property
    def sizes(self) -> list[int]:
        """How many topics and partitions each publication had changed."""
        return [
            sum(1 + len(each.changed_partitions) for each in delta.changed_topics.values())
            for _, delta in self.published
        ]


@pytest.fixture
def standby() -> Standby:
    return Standby()


@pytest.fixture
def caught_up(standby: Standby) -> Standby:
    standby.append(*topic("first"))
    standby.turns()
    standby.published.clear()
    return standby


def test_nothing_is_published_before_it_has_caught_up(standby: Standby) -> None:
    for number in range(MANY):
        standby.append(*topic(str(number)))
    assert not standby.turn()
    assert not standby.turn()
    assert standby.core.committed is EMPTY
    assert standby.published == []
    standby.turns()
    assert standby.sizes == [MANY]
    assert standby.turn()
    assert standby.sizes == [MANY], "nothing new is no publication"


def test_what_is_committed_meanwhile_is_replayed_too(standby: Standby) -> None:
    standby.append(*topic("large", MANY))
    assert not standby.turn()
    standby.append(*topic("later"))
    standby.turns()
    assert standby.core.committed.topics_by_name.keys() == {"large", "later"}


def test_many_changes_are_published_some_at_a_time(caught_up: Standby) -> None:
    for number in range(MANY):
        caught_up.append(*topic(str(number)))
    caught_up.turns()
    assert sum(caught_up.sizes) == MANY
    assert max(caught_up.sizes) == RECORDS_A_PUBLICATION
    for (before, _), (_, delta) in zip(caught_up.published, caught_up.published[1:], strict=False):
        assert delta.base is before


def test_a_large_change_is_seen_whole_or_not_at_all(caught_up: Standby) -> None:
    caught_up.append(*topic("large", MANY))
    caught_up.append(*topic("later"))
    while not caught_up.turn():
        large = caught_up.core.committed.topics_by_name.get("large")
        assert large is None or len(large.partitions) == MANY
    assert caught_up.sizes == [1 + MANY, 1]


def test_a_transaction_of_many_batches_takes_effect_with_its_end(caught_up: Standby) -> None:
    caught_up.append(BeginTransactionRecord(), *topic("large"))
    for number in range(MANY):
        caught_up.append(PartitionRecord(topic_id=id_of("large"), partition_id=number))
    caught_up.turns()
    assert caught_up.published == []
    assert not caught_up.log.is_between_changes
    caught_up.append(EndTransactionRecord())
    while not caught_up.turn():
        # A snapshot of the image would have none of the transaction, and the log no more of it.
        assert not caught_up.log.is_between_changes
    assert caught_up.sizes == [1 + MANY]


def test_a_snapshot_that_replaces_the_log_ends_what_was_begun(standby: Standby) -> None:
    other = Standby()
    other.metadata.change(*topic("theirs", MANY))
    snapshot_id = other.metadata.take_snapshot()
    standby.append(*topic("mine", MANY))
    assert not standby.turn()

    snapshots = standby.log.snapshots
    writing = snapshots.begin(snapshot_id, "4567")
    writing.append(other.metadata.files.read(other.metadata.path(snapshot_id)))
    writing.sync()
    writing.freeze()
    snapshots.install(snapshot_id, 0)
    standby.replay.begin_with_snapshot()
    assert standby.turns() > 1
    assert standby.core.committed == other.metadata.image
    assert len(standby.published) == 1


def test_no_turn_reads_more_records_than_its_steps(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def count(value: bytes) -> Message:
        read.append(value)
        return decode_record(value)

    monkeypatch.setattr(committed_reader, "decode_record", count)
    standby.append(*topic("large", MANY))
    for number in range(MANY):
        standby.append(*topic(str(number)))
    has_more, counts = True, list[int]()
    while has_more:
        has_more = not standby.turn()
        counts.append(len(read))
        read.clear()
    assert sum(counts) == 2 * MANY + 1
    assert max(counts) <= STEPS_A_TURN * RECORDS_A_STEP
