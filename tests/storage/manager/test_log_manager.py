"""Log directories and all the logs in them: start, stop, failure, housekeeping."""

import errno
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.config import LogConfig
from tierlog.storage.directory.log_dir import LogDir, LogDirError, MetaProperties
from tierlog.storage.files import OsFiles
from tierlog.storage.log_file import deleted_directory_name, parse_partition_directory
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk, Survival
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.storage.log_home import (
    NOW_MS,
    SMALL,
    TIERED,
    append,
    everything,
    idempotent,
    plain,
)

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 3)
ID, OTHER_ID = Uuid(bytes(range(16))), Uuid(bytes(range(1, 17)))


def manager(*paths: Path, config: LogConfig = SMALL) -> LogManager:
    return LogManager(OsFiles(), [str(path) for path in paths], config)


def started(*paths: Path, config: LogConfig = SMALL) -> LogManager:
    logs = manager(*paths, config=config)
    logs.directories.open("cluster", 1, lambda: ID)
    logs.start(NOW_MS)
    return logs


def flush(logs: LogManager, now_ms: int) -> None:
    """Do what is due, as housekeeping does."""
    for log in logs.online_logs():
        task = logs.flush_task(log, now_ms)
        if task is not None:
            task.run()
            log.complete_flush(task)


def test_logs_are_found_again_after_a_clean_stop(tmp_path: Path) -> None:
    logs = started(tmp_path)
    for name in (ORDERS, BILLS):
        log = logs.get_or_create_log(name, ID, SMALL, NOW_MS)
        for _ in range(20):
            append(log, plain(2))
    content = everything(log)
    log.update_high_watermark(30)
    logs.shutdown(NOW_MS, broker_epoch=5)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":5}'
    again = started(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    found = again.get_log(BILLS)
    assert found is not None
    assert (found.topic_id, found.high_watermark, everything(found)) == (ID, 30, content)
    assert {log.topic_partition for log in again.all_logs()} == {ORDERS, BILLS}
    again.shutdown(NOW_MS)


def test_logs_are_found_again_after_a_kill(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS)
    for _ in range(20):
        append(log, plain(2))
    log.flush(10)
    logs.checkpoint_recovery_points()
    logs.log_dirs[0].release()
    again = started(tmp_path)
    found = again.get_log(ORDERS)
    assert found is not None
    assert (found.log_end_offset, found.recovery_point) == (40, 10)


def test_topics_keep_their_own_configuration_over_a_restart(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS)
    logs.shutdown(NOW_MS)
    again = manager(tmp_path)
    own = replace(SMALL, retention_ms=5)
    again.start(NOW_MS, {"orders": own})
    found = again.get_log(ORDERS)
    assert found is not None
    assert found.config == own


def test_a_tiered_log_keeps_its_start_over_a_restart(tmp_path: Path) -> None:
    logs = started(tmp_path, config=TIERED)
    log = logs.get_or_create_log(ORDERS, ID, replace(TIERED, local_retention_ms=0), NOW_MS)
    for _ in range(30):
        append(log, plain(2))
    log.maybe_increment_log_start_offset(4)
    log.bounds.update_highest_remote(49)
    assert logs.delete_old_segments(log, NOW_MS + 1) > 0
    local_start = log.local_log_start_offset
    assert local_start > 4
    logs.checkpoint_log_start_offsets()
    logs.log_dirs[0].release()
    found = started(tmp_path, config=TIERED).get_log(ORDERS)
    assert found is not None
    assert (found.log_start_offset, found.local_log_start_offset) == (4, local_start)


def test_a_log_belongs_to_one_topic_id(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create_log(ORDERS, ZERO_UUID, SMALL, NOW_MS)
    assert logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS) is log
    assert log.topic_id == ID
    with pytest.raises(KafkaError) as caught:
        logs.get_or_create_log(ORDERS, OTHER_ID, SMALL, NOW_MS)
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_deleted_log_is_gone_at_once_and_its_files_later(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS), plain())
    logs.delete_log(ORDERS, NOW_MS)
    logs.delete_log(ORDERS, NOW_MS)
    assert logs.get_log(ORDERS) is None
    (doomed,) = [path for path in tmp_path.iterdir() if path.name.endswith("-delete")]
    assert doomed.name.startswith("orders-0.")
    fresh = logs.get_or_create_log(ORDERS, OTHER_ID, SMALL, NOW_MS)
    assert fresh.log_end_offset == 0
    logs.delete_pending(NOW_MS + SMALL.file_delete_delay_ms - 1)
    assert doomed.exists()
    logs.delete_pending(NOW_MS + SMALL.file_delete_delay_ms)
    assert not doomed.exists()


def test_what_is_to_be_removed_is_answered_once_and_left_to_who_asked(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS)
    logs.delete_log(ORDERS, NOW_MS)
    (doomed,) = [path for path in tmp_path.iterdir() if path.name.endswith("-delete")]
    (deletion,) = logs.due_deletions(NOW_MS + SMALL.file_delete_delay_ms)
    assert logs.due_deletions(NOW_MS + SMALL.file_delete_delay_ms) == []
    assert doomed.exists()
    deletion.remove()
    assert not doomed.exists()


def test_a_deletion_that_no_descriptor_was_left_to_sync_is_synced_later() -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    logs = LogManager(files, ["/a"], SMALL)
    logs.start(NOW_MS)
    log = logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS)
    append(log, plain())
    log.flush()
    files.sync_dir("/")
    disk.faults.append(Fault(Kind.SYNC_DIRECTORY, errno.EMFILE, "/a", times=2))
    logs.delete_log(ORDERS, NOW_MS, durably=False)
    logs.sync_deletions()
    assert logs.due_deletions(NOW_MS + SMALL.file_delete_delay_ms) == []
    (deletion,) = logs.due_deletions(NOW_MS + SMALL.file_delete_delay_ms)
    assert deletion.log_dir.is_online
    disk.lose_power(Survival.NOTHING, random.Random(1))
    assert [name for name in files.listdir("/a") if parse_partition_directory(name)] == []


def test_a_deletion_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    doomed = tmp_path / deleted_directory_name(ORDERS, "abc")
    (doomed / "sub").mkdir(parents=True)
    logs = started(tmp_path)
    assert logs.all_logs() == []
    logs.delete_pending(NOW_MS)
    assert not doomed.exists()


def test_new_logs_go_where_there_are_fewest(tmp_path: Path) -> None:
    logs = started(tmp_path / "a", tmp_path / "b")
    for partition in range(6):
        logs.get_or_create_log(TopicPartition("t", partition), ID, SMALL, NOW_MS)
    assert len(list((tmp_path / "a").glob("t-*"))) == len(list((tmp_path / "b").glob("t-*"))) == 3


def test_one_partition_in_two_directories_stops_the_start(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "orders-0").mkdir(parents=True)
    with pytest.raises(LogDirError, match="orders-0"):
        started(tmp_path / "a", tmp_path / "b")


def test_directories_that_are_no_logs_are_left_alone(tmp_path: Path) -> None:
    for name in ("__cluster_metadata-0", "remote-log-index-cache", "lost+found", "-0"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").write_bytes(b"")
    assert started(tmp_path).all_logs() == []
    assert (tmp_path / "__cluster_metadata-0").exists()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ORDERS),
        ("a-b.c_d-12", TopicPartition("a-b.c_d", 12)),
        ("orders", None),
        ("orders-x", None),
        ("orders-0.abc-delete", None),
        ("orders-0.abc-stray", None),
    ],
)
def test_directory_names(name: str, expected: TopicPartition | None) -> None:
    assert parse_partition_directory(name) == expected


def test_a_doomed_directory_never_has_too_long_a_name() -> None:
    name = deleted_directory_name(TopicPartition("t" * 249, 7), "f" * 32)
    assert len(name) == 255
    assert name.endswith("-7." + "f" * 32 + "-delete")


def test_a_damaged_checkpoint_costs_a_longer_recovery_only(tmp_path: Path) -> None:
    logs = started(tmp_path)
    append(logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS), plain(3))
    logs.shutdown(NOW_MS)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_bytes(b"damaged")
    found = started(tmp_path).get_log(ORDERS)
    assert found is not None
    assert (found.log_end_offset, found.high_watermark) == (3, 0)


def test_a_log_of_an_unknown_topic_stops_the_start(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS)
    logs.shutdown(NOW_MS)
    (tmp_path / "orders-0" / "partition.metadata").write_bytes(b"damaged")
    with pytest.raises(LogDirError, match=r"partition\.metadata"):
        started(tmp_path)


def test_logs_of_topics_that_nobody_knows_are_found_before_they_are_loaded(tmp_path: Path) -> None:
    logs = started(tmp_path)
    for name, topic_id in ((ORDERS, ID), (BILLS, OTHER_ID)):
        logs.get_or_create_log(name, topic_id, SMALL, NOW_MS)
    logs.shutdown(NOW_MS)
    for other in ("__cluster_metadata-0", "plain-0", "empty-0", "bills-1.0-delete"):
        (tmp_path / other).mkdir()
    (tmp_path / "empty-0" / "partition.metadata").write_bytes(b"")
    (tmp_path / "file-0").write_bytes(b"")
    again = manager(tmp_path, tmp_path / "missing")
    assert list(again.directories.logs_of_others({"orders"})) == [(f"{tmp_path}/bills-3", OTHER_ID)]
    assert not list(again.directories.logs_of_others({"orders", "bills"}))


def test_a_log_that_was_never_flushed_may_lose_its_topic_s_id_in_a_crash(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "partition.metadata").write_bytes(b"")
    logs = started(tmp_path)
    log = logs.get_log(ORDERS)
    assert log is not None
    assert log.topic_id == ZERO_UUID
    assert logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS).topic_id == ID


def test_a_new_log_is_durable_with_its_first_flush() -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    files.mkdirs("/a")
    files.sync_dir("/")
    logs = LogManager(files, ["/a"], SMALL)
    logs.start(NOW_MS)
    log = logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS)
    append(log, plain())
    log.flush()
    disk.lose_power(Survival.NOTHING, random.Random(1))
    again = LogManager(SimulatedFiles(disk), ["/a"], SMALL)
    again.start(NOW_MS)
    found = again.get_log(ORDERS)
    assert found is not None
    assert (found.topic_id, found.log_end_offset) == (ID, 1)
    assert found.leader_epochs.entries == ((0, 0),)


def test_housekeeping_flushes_what_rolled_and_what_is_due(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create_log(ORDERS, ID, replace(SMALL, flush_ms=100), NOW_MS)
    append(log, plain(2))
    flush(logs, NOW_MS)
    assert log.recovery_point == 0
    log.roll(NOW_MS)
    append(log, plain(2))
    flush(logs, NOW_MS)
    assert log.recovery_point == 2
    flush(logs, NOW_MS + 100)
    assert log.recovery_point == 4
    assert logs.flush_task(log, NOW_MS + 100) is None


def test_idle_producers_are_forgotten(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS)
    append(log, idempotent(0, 1))
    logs.remove_expired_producers(log, NOW_MS + 86_399_999)
    assert len(log.producers.entries) == 1
    logs.producer_expiration_ms = 1_000
    logs.remove_expired_producers(log, NOW_MS + 1_000)
    assert log.producers.entries == {}


def test_a_directory_is_tied_to_its_cluster_and_node(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    assert logs.directories.stored_cluster_id() is None
    (meta,) = logs.directories.open("cluster", 1, lambda: ID)
    assert meta == MetaProperties("cluster", 1, ID)
    logs.log_dirs[0].release()
    again = manager(tmp_path)
    assert again.directories.stored_cluster_id() == "cluster"
    assert again.directories.open("cluster", 1, lambda: OTHER_ID) == [meta]
    again.log_dirs[0].release()
    remedies = (("other", 1, "list only directories of one"), ("cluster", 2, "set node.id=1"))
    for cluster, node, remedy in remedies:
        stranger = manager(tmp_path)
        with pytest.raises(LogDirError, match=f"belongs to node 1 of cluster .*{remedy}"):
            stranger.directories.open(cluster, node, lambda: ID)
        stranger.log_dirs[0].release()


def test_kafka_s_own_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Sat Nov 21 18:10:36 UTC 2026\nnode.id=1\ndirectory.id=Jpt5Wxe8mcRtGg6xfipm9g\n"
        "version=1\ncluster.id=hwedaIyvQmiNOu6Kj7CaDQ\n"
    )
    meta = LogDir(OsFiles(), str(tmp_path)).read_meta_properties()
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == ("hwedaIyvQmiNOu6Kj7CaDQ", 1)


@pytest.mark.parametrize("more", [b"\0" * 12, b"\xf4\x80=\x85\xff\nnothing", b"\x0cnode.id=7"])
def test_lines_that_say_nothing_of_ours_are_passed_over(tmp_path: Path, more: bytes) -> None:
    """As Kafka does, whose file has one letter a byte (ISO 8859-1)."""
    (tmp_path / "meta.properties").write_bytes(b"# Gr\xfc\xdfe\n" + _WHOLE + b"x=" + more)
    meta = LogDir(OsFiles(), str(tmp_path)).read_meta_properties()
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == ("abc", 1)


_WHOLE = b"node.id=1\ndirectory.id=Jpt5Wxe8mcRtGg6xfipm9g\nversion=1\ncluster.id=abc\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version=1\n",
        b"version=1\nnode.id=x\ncluster.id=c",
        _WHOLE[:-12],
        _WHOLE.replace(b"version", b"ver\x8cion"),
        _WHOLE.replace(b"version=1", b"version=\xce"),
        _WHOLE.replace(b"abc", b"a\x9dc"),
        _WHOLE.replace(b"abc", b"a\x02c"),
        _WHOLE.replace(b"abc", b"a\xe2c"),
        _WHOLE.replace(b"node.id=1", b"node.id=\xce"),
        _WHOLE.replace(b"Jpt5", b"J\x8ft5"),
    ],
)
def test_a_damaged_file_stops_the_start_in_plain_words(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(content)
    with pytest.raises(LogDirError) as refused:
        LogDir(OsFiles(), str(tmp_path)).read_meta_properties()
    assert str(refused.value) == (
        f"{path} is damaged: it does not name the cluster and node of the directory. Restore "
        "the file from a backup."
    )


def test_a_file_of_another_version_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    with pytest.raises(LogDirError, match="has version 0; only version 1 is supported"):
        LogDir(OsFiles(), str(tmp_path)).read_meta_properties()


def test_a_directory_has_one_process(tmp_path: Path) -> None:
    manager(tmp_path).directories.open("c", 1, lambda: ID)
    held = LogDir(OsFiles(), str(tmp_path))
    held.acquire()
    with pytest.raises(LogDirError, match="in use"):
        LogDir(OsFiles(), str(tmp_path)).acquire()
    held.release()


@pytest.mark.parametrize(
    ("content", "epoch"),
    [('{"version":0,"brokerEpoch":11}', 11), ("{}", -1), ("[]", -1), ("x", -1), (None, -1)],
)
def test_the_marker_tells_the_broker_epoch(tmp_path: Path, content: str | None, epoch: int) -> None:
    if content is not None:
        (tmp_path / ".kafka_cleanshutdown").write_text(content)
    assert LogDir(OsFiles(), str(tmp_path)).clean_shutdown_broker_epoch() == epoch


def two_disks() -> tuple[SimulatedDisk, LogManager, list[LogDir]]:
    disk = SimulatedDisk()
    logs = LogManager(SimulatedFiles(disk), ["/a", "/b"], SMALL)
    failed: list[LogDir] = []
    logs.directories.on_failure(failed.append)
    logs.start(NOW_MS)
    for name in (ORDERS, BILLS):
        append(logs.get_or_create_log(name, ID, SMALL, NOW_MS), plain())
    return disk, logs, failed


def test_one_failed_disk_leaves_the_other_working() -> None:
    disk, logs, failed = two_disks()
    orders, bills = logs.get_log(ORDERS), logs.get_log(BILLS)
    assert orders is not None
    assert bills is not None
    disk.faults.append(Fault(Kind.WRITE, errno.EIO, ".log"))
    with pytest.raises(KafkaError):
        append(orders, plain())
    assert failed == [orders.log_dir]
    assert logs.directories.online == [bills.log_dir]
    assert append(bills, plain()).first_offset == 1
    for log in logs.online_logs():
        logs.delete_old_segments(log, NOW_MS)
    logs.delete_pending(NOW_MS)
    flush(logs, NOW_MS)
    fresh = logs.get_or_create_log(TopicPartition("new", 0), ID, SMALL, NOW_MS)
    assert fresh.log_dir is bills.log_dir
    with pytest.raises(KafkaError):
        logs.delete_log(ORDERS, NOW_MS)
    logs.shutdown(NOW_MS)
    assert not orders.log_dir.has_clean_shutdown_marker()
    assert bills.log_dir.has_clean_shutdown_marker()


def test_a_failed_fsync_is_never_tried_again() -> None:
    disk, logs, failed = two_disks()
    log = logs.get_log(ORDERS)
    assert log is not None
    disk.faults.append(Fault(Kind.FLUSH, errno.EIO, ".log"))
    with pytest.raises(KafkaError) as caught:
        log.flush()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.recovery_point, len(failed)) == (0, 1)
    with pytest.raises(KafkaError):
        log.flush()


def test_without_any_disk_nothing_can_be_made() -> None:
    _, logs, _ = two_disks()
    for log_dir in logs.log_dirs:
        log_dir.fail(OSError(errno.EIO, "gone"))
    with pytest.raises(KafkaError) as caught:
        logs.get_or_create_log(TopicPartition("new", 0), ID, SMALL, NOW_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_disk_that_fails_at_the_start_is_offline_and_the_other_serves() -> None:
    disk, logs, _ = two_disks()
    logs.shutdown(NOW_MS)
    again = LogManager(SimulatedFiles(disk), ["/a", "/b"], SMALL)
    disk.faults.append(Fault(Kind.SYNC_DIRECTORY, errno.EIO, "/a"))
    again.start(NOW_MS)
    assert [log_dir.path for log_dir in again.directories.online] == ["/b"]
    assert len(again.all_logs()) == 1


def test_a_directory_that_cannot_be_opened_is_offline_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("no directory")
    logs = manager(tmp_path / "a", tmp_path / "b")
    assert logs.directories.stored_cluster_id() is None
    failed: list[LogDir] = []
    (meta,) = logs.directories.open("cluster", 1, lambda: ID)
    # Who listens later is told, too.
    logs.directories.on_failure(failed.append)
    logs.start(NOW_MS)
    assert meta.directory_id == logs.log_dirs[0].directory_id
    assert failed == [logs.log_dirs[1]]
    assert append(logs.get_or_create_log(ORDERS, ID, SMALL, NOW_MS), plain()).first_offset == 0
    logs.shutdown(NOW_MS)
    assert manager(tmp_path / "b", tmp_path / "a").directories.stored_cluster_id() == "cluster"


def test_the_directory_of_the_metadata_log_must_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no directory")
    with pytest.raises(FileExistsError):
        manager(tmp_path / "a", tmp_path / "b").directories.open("cluster", 1, lambda: ID)


def test_a_member_does_not_make_up_the_id_of_its_cluster(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    logs = manager(first, second)
    with pytest.raises(LogDirError, match="have you run `tierlog format`"):
        logs.directories.formatted_cluster_id()
    assert not first.exists()
    second.mkdir()
    LogDir(OsFiles(), str(second)).write_meta_properties(MetaProperties("cluster", 1, OTHER_ID))
    with pytest.raises(LogDirError, match=f"No `meta.properties` found in {first} "):
        logs.directories.formatted_cluster_id()
    first.mkdir()
    LogDir(OsFiles(), str(first)).write_meta_properties(MetaProperties("cluster", 1, ID))
    assert logs.directories.formatted_cluster_id() == "cluster"
