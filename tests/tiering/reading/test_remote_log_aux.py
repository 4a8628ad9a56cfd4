"""What is fetched from the tier for a follower, and every way in which that can fail."""

import asyncio

import pytest

from tierlog.storage.log.aux_state import AuxRequest, AuxState
from tierlog.storage.log.leader_epoch import EpochEntry
from tierlog.storage.producer.producer_snapshot import encode_snapshot
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.tiering.memory_tier import INDEX, UNREACHABLE, MemoryTier, StoredSegment
from tierlog.tests.tiering.segments import PARTITION, segment_metadata
from tierlog.tiering.reading.remote_log_aux import RemoteLogAux
from tierlog.tiering.remote_storage import Failure, IndexType, RemoteStorageError
from tierlog.tiering.tier_statistics import TierStatistics

TOPIC = PARTITION.topic
REQUEST = AuxRequest(PARTITION, 0, 99, 10, 5, is_tiered=True)
EPOCHS = b"0\n1\n0 0\n"


class Metadata:
    """One segment, 0-99 of epoch 0."""

    def __init__(self) -> None:
        self.log = RemoteLog(PARTITION)
        self.is_read = True
        self.segment = segment_metadata(1)
        self.log.apply_copy_started(self.segment)
        self.move(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)

    def move(self, state: RemoteLogSegmentState) -> None:
        update = RemoteLogSegmentMetadataUpdate(
            segment_id=self.segment.segment_id, event_timestamp_ms=1, state=state, broker_id=1
        )
        self.log.apply_update(update)

    def is_ready(self, partition: object) -> bool:
        assert partition == PARTITION
        return self.is_read

    def remote_log(self, partition: object) -> RemoteLog:
        assert partition == PARTITION
        return self.log


class Tier:
    """The segment in a tier in memory, and who fetches from it."""

    def __init__(self) -> None:
        self.metadata = Metadata()
        self.storage = MemoryTier()
        self.statistics = TierStatistics()
        self.indexes = {
            IndexType.LEADER_EPOCH: EPOCHS,
            IndexType.PRODUCER_SNAPSHOT: encode_snapshot(()),
        }
        segment = self.metadata.segment
        self.storage.segments[segment.id] = StoredSegment(segment, b"", self.indexes)
        self.aux = RemoteLogAux(self.storage, self.metadata, self.statistics)

    def fetch(self, request: AuxRequest = REQUEST) -> AuxState:
        return asyncio.run(self.aux.fetch(request))

    def refuses(self, request: AuxRequest = REQUEST) -> RemoteStorageError:
        with pytest.raises(RemoteStorageError) as caught:
            self.fetch(request)
        assert self.statistics.build_aux_errors[TOPIC] == 1
        assert self.statistics.build_aux_requests[TOPIC] == 1
        return caught.value


@pytest.mark.scenario("5")
def test_epochs_and_producers_are_fetched_and_nothing_else() -> None:
    tier = Tier()
    state = tier.fetch()
    assert state == AuxState(100, 10, [EpochEntry(0, 10)], encode_snapshot(()))
    assert tier.storage.asked(INDEX) == [0, 0]
    assert len(tier.storage.events) == 2
    assert (tier.statistics.build_aux_requests[TOPIC], tier.statistics.build_aux_errors[TOPIC]) == (
        1,
        0,
    )


@pytest.mark.scenario("5.4")
@pytest.mark.parametrize("request_", [REQUEST._replace(epoch=1), REQUEST._replace(offset=100)])
def test_a_segment_without_metadata(request_: AuxRequest) -> None:
    error = Tier().refuses(request_)
    assert "previous remote log segment metadata was not found" in str(error)


@pytest.mark.scenario("5.4")
def test_a_segment_that_is_being_deleted_is_not_built_on() -> None:
    tier = Tier()
    tier.metadata.move(RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    assert "not found" in str(tier.refuses())


def test_metadata_that_is_still_being_read_may_be_tried_again() -> None:
    tier = Tier()
    tier.metadata.is_read = False
    error = tier.refuses()
    assert error.is_retriable
    assert tier.storage.events == []


def test_a_topic_that_is_not_tiered_yet() -> None:
    error = Tier().refuses(REQUEST._replace(is_tiered=False))
    assert str(error) == (
        "Couldn't build the state from remote store for partition orders.eu-1-7, "
        "as remote log storage is not yet enabled"
    )


@pytest.mark.parametrize("missing", [IndexType.LEADER_EPOCH, IndexType.PRODUCER_SNAPSHOT])
def test_an_object_that_is_gone(missing: IndexType) -> None:
    tier = Tier()
    del tier.indexes[missing]
    assert tier.refuses().failure is Failure.NOT_FOUND


@pytest.mark.parametrize("damaged", [IndexType.LEADER_EPOCH, IndexType.PRODUCER_SNAPSHOT])
def test_an_object_that_is_damaged_is_named(damaged: IndexType) -> None:
    tier = Tier()
    tier.indexes[damaged] = tier.indexes[damaged][:-1] + b"\x07"
    assert str(tier.metadata.segment.segment_id) in str(tier.refuses())


def test_a_tier_that_cannot_be_reached() -> None:
    tier = Tier()
    tier.storage.is_down = True
    assert tier.refuses() is UNREACHABLE
