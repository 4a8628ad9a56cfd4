"""A data directory that a rebuild has written, and one that a rebuild was cut short in."""

import asyncio
from pathlib import Path

import pytest

from tierlog.broker.config.config import BrokerConfig, read_config
from tierlog.cli.tier.rebuilt_directory import RebuiltDirectory
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_log import open_metadata_log
from tierlog.storage.config import LogConfig
from tierlog.storage.directory.log_dir import REBUILD_MARKER, LogDirError
from tierlog.storage.files import OsFiles
from tierlog.storage.manager.log_manager import LogManager
from tierlog.storage.producer.producer_entry import BatchMetadata, ProducerEntry
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.store.manifest import TopicDescription
from tierlog.tiering.tools.plan_rebuild import RebuildPlan, plan_rebuild
from tierlog.tiering.tools.tier_survey import survey_tier

HISTORY = ((0, 0), (4, 13))
TIERED = LogConfig(remote_storage_enable=True)


def stated(path: Path) -> dict[str, str]:
    return {
        "log.dirs": str(path / "data"),
        "rsm.config.url": (path / "tier").as_uri(),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "listeners": "PLAINTEXT://127.0.0.1:0",
    }


def config(path: Path) -> BrokerConfig:
    return read_config(stated(path))


def open_transaction(first_offset: int) -> ProducerEntry:
    entry = ProducerEntry(77, 3)
    entry.current_txn_first_offset = first_offset
    entry.batches.append(BatchMetadata(0, first_offset, 0, 100))
    entry.last_timestamp = 100
    return entry


def plan(*producers: ProducerEntry) -> RebuildPlan:
    bucket = Bucket()
    topic = TopicDescription(2, {"retention.ms": "-1"})
    bucket.put(1, (5, 9), HISTORY, topic=topic)
    bucket.put(2, (10, 19), HISTORY, topic=topic, producers=producers)

    async def story() -> RebuildPlan:
        return await plan_rebuild(bucket, await survey_tier(bucket), skip_holes=False)

    return asyncio.run(story())


def rebuild(path: Path, what: RebuildPlan) -> None:
    RebuiltDirectory(config(path), OsFiles(), SystemEnvironment()).write(what)


def image_in(path: Path) -> ClusterImage:
    manager = LogManager(OsFiles(), [str(path / "data")], LogConfig())
    log = open_metadata_log(manager.log_dirs[0], 0, 0, had_clean_shutdown=True)
    delta = ClusterDelta(ClusterImage(""))
    for committed in log.replay():
        delta.replay_all(committed.records)
    log.close(0)
    return delta.apply(0, 0)


def test_the_cluster_knows_its_topics_under_their_old_ids(tmp_path: Path) -> None:
    rebuild(tmp_path, plan(ProducerEntry(4711)))
    image = image_in(tmp_path)
    topic = image.topics_by_name[PARTITION.topic]
    assert topic.topic_id == PARTITION.topic_id
    assert sorted(topic.partitions) == [0, 1]
    # The next leader's epoch is above every one in the tier.
    assert topic.partitions[0].leader_epoch == 4
    assert image.topic_config(PARTITION.topic) == {
        "remote.storage.enable": "true",
        "retention.ms": "-1",
    }
    assert len(image.topics_by_name["__remote_log_metadata"].partitions) == 3
    # Ids are given out in blocks, and none that is remembered is given again.
    assert image.next_producer_id == 5000


def test_a_log_is_empty_and_begins_where_the_tier_ends(tmp_path: Path) -> None:
    rebuild(tmp_path, plan())
    manager = LogManager(OsFiles(), [str(tmp_path / "data")], LogConfig())
    manager.start(0, {PARTITION.topic: TIERED})
    log = manager.get_log(PARTITION.topic_partition)
    assert log is not None
    assert (log.log_start_offset, log.local_log_start_offset) == (5, 20)
    assert log.log_end_offset == log.high_watermark == log.last_stable_offset == 20
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 5), (4, 13)]
    empty = manager.get_log(TopicPartition(PARTITION.topic, 1))
    assert empty is not None
    assert (empty.log_start_offset, empty.log_end_offset) == (0, 0)
    manager.shutdown(0)


def test_a_transaction_that_nobody_can_decide_is_aborted(tmp_path: Path) -> None:
    """Its coordinator's log is gone with the disk; left open, nothing above could be read."""
    rebuild(tmp_path, plan(open_transaction(17)))
    manager = LogManager(OsFiles(), [str(tmp_path / "data")], LogConfig())
    manager.start(0, {PARTITION.topic: TIERED})
    log = manager.get_log(PARTITION.topic_partition)
    assert log is not None
    assert log.log_end_offset == log.last_stable_offset == 21
    (aborted,) = log.aborted_transactions(5, 21)
    assert (aborted.producer_id, aborted.first_offset) == (77, 17)
    manager.shutdown(0)


def test_nothing_is_rebuilt_over_data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders-0").mkdir()
    with pytest.raises(LogDirError, match="is not empty"):
        rebuild(tmp_path, plan())
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["orders-0"]


def test_a_rebuild_that_was_cut_short_is_run_again(tmp_path: Path) -> None:
    rebuild(tmp_path, plan())
    data = tmp_path / "data"
    # As a crash leaves it: the mark is still there, and not everything is.
    (data / REBUILD_MARKER).write_text("tierlog tier rebuild\n")
    (data / "orders-1" / "partition.metadata").unlink()
    (data / "a-leftover").write_text("of the first attempt")
    with BrokerRefused(tmp_path) as refusal:
        assert "did not finish: run `tierlog tier rebuild` again" in refusal
    rebuild(tmp_path, plan())
    assert not (data / REBUILD_MARKER).exists()
    assert not (data / "a-leftover").exists()
    with BrokerThread(data, stated(tmp_path)) as broker:
        assert broker.broker is not None


class BrokerRefused:
    """A broker that does not start on a directory; in the context, why."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> str:
        with pytest.raises(Exception, match="rebuild") as refusal:
            with BrokerThread(self._path / "data", stated(self._path)):
                pytest.fail("it has started")
        return str(refusal.value)

    def __exit__(self, *_: object) -> None:
        """Nothing has started."""
