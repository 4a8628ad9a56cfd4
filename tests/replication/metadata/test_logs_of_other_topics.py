"""Whose a log is stands in a small file. What that file says may be wrong, and deletes nothing."""

import logging

import pytest

from tierlog.clients.kafka_uuid import Uuid, uuid_to_string
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.metadata.metadata_records import RemoveTopicRecord
from tierlog.storage.checkpoint import PARTITION_METADATA_FILE, write_partition_metadata
from tierlog.storage.log_file import future_directory_name
from tierlog.tests.replication.broker_node import BrokerNode, values_in, with_broker
from tierlog.tests.replication.node import DATA, create, delete
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate

WHERE = f"{DATA}/t-0/{PARTITION_METADATA_FILE}"
STRANGER = Uuid(b"never a topic id")
FUTURE = future_directory_name(TopicPartition("t", 0), "f" * 32)


def a_disk_with_records() -> tuple[SimulatedDisk, SimulatedFiles]:
    disk = SimulatedDisk()

    async def story(node: BrokerNode) -> None:
        await create(node.controller, "t")
        node.append("t", b"dear")

    with_broker(story, disk)
    return disk, SimulatedFiles(disk)


def partition_directories(files: SimulatedFiles) -> list[str]:
    return sorted(name for name in files.listdir(DATA) if name.startswith("t-"))


@pytest.mark.parametrize("position", [22, 30, 40])
def test_a_flipped_bit_in_the_name_of_its_topic_costs_a_log_nothing(
    position: int, caplog: pytest.LogCaptureFixture
) -> None:
    """An id that differs in one letter from the topic's is the topic's, misread."""
    disk, files = a_disk_with_records()
    content = bytearray(files.read(WHERE))
    content[position] ^= 1
    files.atomic_replace(WHERE, bytes(content))

    async def after(node: BrokerNode) -> None:
        (result,) = node.fetch_now(node.asked("t", 0))
        assert values_in(result)[0] == b"dear"
        node.append("t", b"more")

    with_broker(after, disk)
    assert partition_directories(files) == ["t-0"]
    (said,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert "t-0" in said.getMessage()
    caplog.clear()
    with_broker(after, disk)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_log_of_a_topic_that_never_was_is_set_aside(caplog: pytest.LogCaptureFixture) -> None:
    """As Kafka does with strays. No start takes it for a log, and nothing removes it."""
    disk, files = a_disk_with_records()
    write_partition_metadata(files, WHERE, STRANGER)

    async def after(node: BrokerNode) -> None:
        (result,) = node.fetch_now(node.asked("t", 0))
        assert values_in(result) == []
        node.log_manager.delete_pending(node.environment.wall_clock_ms() + 10**9)

    with_broker(after, disk)
    kept, stray = partition_directories(files)
    assert kept == "t-0"
    assert stray.startswith("t-0.")
    assert stray.endswith("-stray")
    (said,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert stray in said.getMessage()
    assert uuid_to_string(STRANGER) in said.getMessage()
    assert files.size(f"{DATA}/{stray}/{0:020d}.log") > 0
    with_broker(after, disk)
    assert partition_directories(files) == [kept, stray]


def test_a_log_of_a_topic_that_was_deleted_goes(caplog: pytest.LogCaptureFixture) -> None:
    """The broker was killed after the deletion was committed and before the directory was gone."""
    disk, files = a_disk_with_records()

    async def killed(loop: SimulatedLoop) -> None:
        node = BrokerNode(loop, files)
        topic_id = node.controller.image.topics_by_name["t"].topic_id
        node.controller.metadata_log.append([RemoveTopicRecord(topic_id=topic_id)], 0)
        node.controller.metadata_log.flush()
        node.log_manager.shutdown(0)

    async def after(node: BrokerNode) -> None:
        assert node.log_manager.get_log(TopicPartition("t", 0)) is None
        node.log_manager.delete_pending(node.environment.wall_clock_ms() + 10**9)

    simulate(killed)
    assert partition_directories(files) == ["t-0"]
    caplog.set_level(logging.INFO)
    with_broker(after, disk)
    assert partition_directories(files) == []
    assert any("t-0" in each.getMessage() for each in caplog.records)


def test_a_log_of_a_deleted_topic_of_the_same_name_goes() -> None:
    disk, files = a_disk_with_records()

    async def killed(node: BrokerNode) -> None:
        first = files.read(WHERE)
        await delete(node.controller, "t")
        await create(node.controller, "t")
        files.atomic_replace(WHERE, first)

    async def after(node: BrokerNode) -> None:
        (result,) = node.fetch_now(node.asked("t", 0))
        assert values_in(result) == []
        node.log_manager.delete_pending(node.environment.wall_clock_ms() + 10**9)

    with_broker(killed, disk)
    with_broker(after, disk)
    assert partition_directories(files) == ["t-0"]


def test_a_log_that_nobody_asks_for_and_no_record_tells_of_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, files = a_disk_with_records()
    files.mkdirs(f"{DATA}/u-3")
    write_partition_metadata(files, f"{DATA}/u-3/{PARTITION_METADATA_FILE}", STRANGER)

    async def after(node: BrokerNode) -> None:
        node.log_manager.delete_pending(node.environment.wall_clock_ms() + 10**9)

    with_broker(after, disk)
    assert files.is_directory(f"{DATA}/u-3")
    assert any("u-3" in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize("deleted", [FUTURE, "t-0"])
def test_a_log_of_a_deleted_topic_takes_no_other_log_of_its_name_along(deleted: str) -> None:
    """A current log and one on its way say that they are of two topics; one of them is gone."""
    disk, files = a_disk_with_records()
    (stray,) = {FUTURE, "t-0"} - {deleted}

    async def killed(loop: SimulatedLoop) -> None:
        node = BrokerNode(loop, files)
        topic_id = node.controller.image.topics_by_name["t"].topic_id
        node.controller.metadata_log.append([RemoveTopicRecord(topic_id=topic_id)], 0)
        node.controller.metadata_log.flush()
        node.log_manager.shutdown(0)
        for name, whose in ((deleted, topic_id), (stray, STRANGER)):
            files.mkdirs(f"{DATA}/{name}")
            write_partition_metadata(files, f"{DATA}/{name}/{PARTITION_METADATA_FILE}", whose)

    async def after(node: BrokerNode) -> None:
        node.log_manager.delete_pending(node.environment.wall_clock_ms() + 10**9)

    simulate(killed)
    with_broker(after, disk)
    assert partition_directories(files) == [stray]
