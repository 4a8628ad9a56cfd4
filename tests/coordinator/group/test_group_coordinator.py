"""The coordinator in virtual time over a log in memory: waiting, loading, moving, forgetting."""

import asyncio
from functools import partial

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import batches
from tierlog.coordinator.group.consumer_protocol import ConsumerProtocol
from tierlog.coordinator.group_actions import JoinResult, MemberIdentity
from tierlog.coordinator.group_records import CommittedOffset, OffsetEntry, read_record
from tierlog.coordinator.offsets import NO_COMMITTED_OFFSET, OffsetsProducer
from tierlog.coordinator.offsets_topic import OFFSETS_TOPIC, partition_for
from tierlog.replication.metadata.cluster_image import (
    ClusterDelta,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from tierlog.tests.simulation.loop import SimulatedLoop

from ..group_driver import committed
from ..memory_offsets_log import MemoryOffsetsLog
from .coordinated_groups import (
    GROUP,
    PARTITION,
    TOPIC_ID,
    Broker,
    commit_request,
    join_request,
    later,
)

DAY_S = 86_400


def written(log: MemoryOffsetsLog) -> list[tuple[object, ...]]:
    """What the log of the group's partition says, record by record."""
    entries = [
        read_record(record.key or b"", record.value, record.offset)
        for batch in batches(bytes(log.partitions.get(PARTITION, b"")))
        for record in batch.records()
    ]
    return [entry for entry in entries if entry is not None]


async def stable_group(broker: Broker, *names: str) -> None:
    """Bring members into one stable generation."""
    joined = await asyncio.gather(*(broker.join(name) for name in names))
    pairs = zip(names, joined, strict=True)
    synced = await asyncio.gather(*(broker.sync(name, result) for name, result in pairs))
    assert [result.assignment for result in synced] == [name.encode() for name in names]


async def test_members_join_sync_and_heartbeat(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await stable_group(broker, "anna", "lena", "mona")
    assert broker.heartbeat("lena") is ErrorCode.NONE


async def test_an_answer_that_promises_something_waits_for_its_append(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    broker.log.delay_s = 2.0
    before = loop.time()
    assert await broker.commit(42) == [ErrorCode.NONE]
    assert loop.time() - before == pytest.approx(2.0)
    joined = await broker.join("anna")
    before = loop.time()
    await broker.sync("anna", joined)
    assert loop.time() - before == pytest.approx(2.0)


async def test_a_commit_under_way_is_not_shown_and_stable_fetches_wait_for_it(
    loop: SimulatedLoop,
) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.commit(41)
    broker.log.delay_s = 2.0
    commit = committed(broker.coordinator, commit_request(42))
    assert await broker.committed() == 41
    assert await broker.committed(require_stable=True) == 42
    assert await later(commit) == [ErrorCode.NONE]
    assert await broker.committed() == 42


@pytest.mark.parametrize(("is_commit", "shown"), [(True, 42), (False, 41)])
async def test_a_marker_that_is_replicated_together_with_its_commit_ends_it(
    loop: SimulatedLoop, is_commit: bool, shown: int
) -> None:
    """One move of the high watermark completes both, and the marker may be handled first."""
    broker = Broker(loop)
    await broker.elect()
    await broker.commit(41)
    broker.log.delay_s = 2.0
    request = commit_request(42)._replace(producer=OffsetsProducer(7, 0))
    commit = committed(broker.coordinator, request)
    broker.coordinator.transaction_ended(PARTITION, 7, is_commit)
    assert await later(commit) == [ErrorCode.NONE]
    assert await broker.committed(require_stable=True) == shown


async def test_a_stable_fetch_at_the_very_moment_of_a_commits_end_shows_it(
    loop: SimulatedLoop,
) -> None:
    broker = Broker(loop)
    await broker.elect()
    broker.log.delay_s = 2.0
    fetched: list[asyncio.Task[int]] = []
    commit = committed(broker.coordinator, commit_request(42))
    fetch = partial(broker.committed, require_stable=True)
    loop.call_later(2.0, lambda: fetched.append(asyncio.ensure_future(fetch())))
    await later(commit)
    assert await fetched[0] == 42


@pytest.mark.parametrize(
    ("refused", "answered", "kept"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR, 41),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR, 41),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE, 41),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR, 41),
        (ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.INVALID_REQUIRED_ACKS, 41),
        # It is in the log, and whoever reads the log next will find it there.
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE, 42),
    ],
)
async def test_a_commit_that_cannot_be_written_is_retriable(
    loop: SimulatedLoop, refused: ErrorCode, answered: ErrorCode, kept: int
) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.commit(41)
    broker.log.refuse = refused
    assert await broker.commit(42) == [answered]
    assert await broker.committed() == kept


async def test_whoever_reads_the_log_next_goes_on_where_the_group_was(loop: SimulatedLoop) -> None:
    first = Broker(loop)
    await first.elect()
    await first.commit(42)
    await stable_group(first, "anna", "lena")
    second = Broker(loop, first.log)
    await second.elect(leader_epoch=1)
    assert await second.committed() == 42
    assert second.heartbeat("lena") is ErrorCode.NONE
    assert second.heartbeat("lena", generation=2) is ErrorCode.ILLEGAL_GENERATION


async def test_while_a_long_log_is_read_others_run_and_requests_are_put_off(
    loop: SimulatedLoop,
) -> None:
    first = Broker(loop)
    await first.elect()
    for offset in range(50):
        await first.commit(offset)
    second = Broker(loop, first.log)
    second.coordinator.on_elected(PARTITION, 1)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await second.commit(99) == [loading]
    assert (await second.fetch())[0] is loading
    # Nothing is known against a member yet, so it need not do anything.
    assert second.heartbeat("anna") is ErrorCode.NONE
    assert second.coordinator.leave_group(GROUP, []) == (loading, [])
    await second.loaded()
    assert await second.committed() == 49


async def test_requests_for_groups_of_other_brokers_are_sent_on(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    other = ErrorCode.NOT_COORDINATOR
    assert broker.heartbeat("anna") is other
    assert await broker.commit(1) == [other]
    assert await broker.fetch() == (other, [])
    assert broker.coordinator.leave_group(GROUP, []) == (other, [])
    join = await later(broker.coordinator.join_group(join_request("anna")))
    assert join.error is other
    sync = await broker.sync("anna", join)
    assert sync.error is other


async def test_when_leadership_moves_on_parked_members_get_an_error(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    join = asyncio.ensure_future(broker.join("anna"))
    await asyncio.sleep(1)
    broker.coordinator.on_resigned(PARTITION)
    assert (await join).error is ErrorCode.NOT_COORDINATOR
    assert broker.heartbeat("anna") is ErrorCode.NOT_COORDINATOR


async def test_what_was_being_written_when_leadership_moved_on_is_not_confirmed(
    loop: SimulatedLoop,
) -> None:
    broker = Broker(loop)
    await broker.elect()
    broker.log.delay_s = 2.0
    commit = committed(broker.coordinator, commit_request(42))
    broker.coordinator.on_resigned(PARTITION)
    assert await later(commit) == [ErrorCode.NOT_COORDINATOR]


async def test_a_change_of_the_isr_alone_does_not_disturb_the_groups(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await stable_group(broker, "anna")
    broker.coordinator.on_elected(PARTITION, 0)
    assert broker.heartbeat("anna") is ErrorCode.NONE


async def test_a_log_that_cannot_be_read_is_not_served(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(loop)
    broker.log.unreadable.add(PARTITION)
    broker.coordinator.on_elected(PARTITION, 0)
    assert await broker.commit(1) == [ErrorCode.NOT_COORDINATOR]
    assert "could not be loaded" in caplog.text


async def test_a_damaged_batch_costs_what_it_says_and_nothing_that_follows(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(loop)
    await broker.elect()
    ends: list[int] = []
    for offset in (1, 2, 3):
        assert await broker.commit(offset) == [ErrorCode.NONE]
        ends.append(len(broker.log.partitions[PARTITION]))
    log = broker.log.partitions[PARTITION]
    log[ends[1] - 1] ^= 1
    await broker.elect(1)
    assert await broker.committed() == 3
    del log[ends[1] :]
    await broker.elect(2)
    assert await broker.committed() == 1
    assert caplog.text.count(f"in {OFFSETS_TOPIC}-{PARTITION} is damaged at offset") == 2


async def test_a_client_that_has_gone_away_does_not_disturb_the_others(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    lena = asyncio.ensure_future(broker.join("lena"))
    anna = asyncio.ensure_future(broker.join("anna"))
    await asyncio.sleep(1)
    lena.cancel()
    assert (await anna).generation == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
async def test_joins_with_impossible_wishes_are_refused(
    loop: SimulatedLoop, changes: dict[str, object], error: ErrorCode
) -> None:
    broker = Broker(loop)
    await broker.elect()
    request = join_request("anna")
    if "group_id" in changes:
        request = request._replace(group_id="")
    else:
        session_timeout_ms = changes["session_timeout_ms"]
        assert isinstance(session_timeout_ms, int)
        request = request._replace(session_timeout_ms=session_timeout_ms)
    assert broker.coordinator.join_group(request) == JoinResult("", error)


async def test_a_refused_founder_leaves_no_group_behind(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    refused = broker.coordinator.join_group(join_request("anna")._replace(protocols=()))
    assert isinstance(refused, JoinResult)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert written(broker.log) == []


async def test_member_ids_carry_the_clients_name_and_a_uuid(loop: SimulatedLoop) -> None:
    ids = {Broker(loop).coordinator.new_member_id("anna") for _ in range(2)}
    for member_id in ids:
        name, *parts = member_id.split("-")
        assert name == "anna"
        assert [len(part) for part in parts] == [8, 4, 4, 4, 12]


@pytest.mark.simulated(time_limit_s=30 * DAY_S)
async def test_offsets_of_an_empty_group_are_forgotten_and_then_the_group(
    loop: SimulatedLoop,
) -> None:
    broker = Broker(loop)
    await broker.elect()
    await stable_group(broker, "anna")
    identity = MemberIdentity("anna", None)
    request = commit_request(42)._replace(identity=identity, generation=1)
    assert await later(committed(broker.coordinator, request)) == [ErrorCode.NONE]
    broker.coordinator.leave_group(GROUP, [identity])
    await asyncio.sleep(7 * DAY_S - 3_600)
    assert await broker.committed() == 42
    await asyncio.sleep(2 * 3_600)
    assert await broker.committed() == NO_COMMITTED_OFFSET.offset
    last_two = written(broker.log)[-2:]
    assert [entry[1] for entry in last_two] == [None, None]
    second = Broker(loop, broker.log)
    await second.elect()
    assert await second.committed() == NO_COMMITTED_OFFSET.offset


def publish_deletion(broker: Broker) -> None:
    """Publish that the topic of the commits was deleted."""
    base = ClusterImage("cluster")
    delta = ClusterDelta(base)
    delta.deleted_topics[TOPIC_ID] = TopicImage("topic", TOPIC_ID, {})
    broker.coordinator.publish(base, delta)


async def test_a_deleted_topics_offsets_are_deleted(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.commit(42)
    publish_deletion(broker)
    assert await broker.committed() == NO_COMMITTED_OFFSET.offset
    entry = written(broker.log)[-1]
    assert isinstance(entry, OffsetEntry)
    assert entry.committed is None


async def test_a_step_of_a_publication_that_fails_keeps_no_other_from_the_image(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def publish(*_: object) -> None:
        raise LookupError

    publish.__qualname__ = "ConsumerProtocol.publish"
    monkeypatch.setattr(ConsumerProtocol, "publish", publish)
    broker = Broker(loop)
    await broker.elect()
    await broker.commit(42)
    publish_deletion(broker)
    assert await broker.committed() == NO_COMMITTED_OFFSET.offset
    assert "Publication of metadata of ConsumerProtocol.publish failed" in caplog.text


async def test_the_topics_own_number_of_partitions_counts(loop: SimulatedLoop) -> None:
    coordinator = Broker(loop).coordinator
    led = PartitionImage((0,), (0,), 0, 0, 0)
    topic = TopicImage(OFFSETS_TOPIC, TOPIC_ID, dict.fromkeys(range(3), led))
    image = ClusterImage("cluster", topics_by_name={OFFSETS_TOPIC: topic})
    coordinator.publish(image, ClusterDelta(image))
    assert coordinator.partition_of(GROUP) == partition_for(GROUP, 3)


async def test_all_offsets_of_a_group_are_listed(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.commit(42)
    await later(committed(broker.coordinator, commit_request(7, "other")))
    error, topics = await later(broker.coordinator.fetch_offsets(GROUP, None, False))
    assert error is ErrorCode.NONE
    offsets = {
        (topic.topic, partition): (found.offset, found.leader_epoch, found.metadata)
        for topic in topics
        for partition, found in topic.partitions
    }
    assert offsets == {("topic", 0): (42, 3, "why"), ("other", 0): (7, 3, "why")}


async def test_stopping_answers_everyone_and_leaves_no_timer(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    join = asyncio.ensure_future(broker.join("anna"))
    await asyncio.sleep(1)
    broker.coordinator.stop()
    assert (await join).error is ErrorCode.NOT_COORDINATOR


async def test_a_committed_offset_knows_where_in_the_log_it_stands(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    await broker.commit(41)
    await broker.commit(42)
    _, topics = await broker.fetch()
    found = topics[0].partitions[0][1]
    assert isinstance(found, CommittedOffset)
    assert found.record_offset == 1
