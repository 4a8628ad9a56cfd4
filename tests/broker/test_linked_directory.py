"""A partition's directory that an operator has moved to another disk, with a link in its place."""

import os
from pathlib import Path

from tierlog.bench.harness.requests.admin import create_topic, delete_topic

from ..broker_process import BrokerThread
from ..waiting import wait_until

AT_ONCE = {"file.delete.delay.ms": "1", "log.segment.delete.delay.ms": "1"}


def partitions(data: Path) -> list[str]:
    return [name for name in os.listdir(data) if name.startswith("moved-")]


def test_its_topic_can_be_deleted_and_the_broker_stays(tmp_path: Path) -> None:
    data, other_disk = tmp_path / "data", tmp_path / "other disk"
    data.mkdir()
    with BrokerThread(data, AT_ONCE) as broker:
        create_topic(broker.bootstrap, "moved", {})
    (data / "moved-0").rename(other_disk)
    (data / "moved-0").symlink_to(other_disk)
    with BrokerThread(data, AT_ONCE) as broker:
        delete_topic(broker.bootstrap, "moved")
        wait_until(lambda: not partitions(data), 30, lambda: str(partitions(data)))
        create_topic(broker.bootstrap, "after", {})
    assert not list(other_disk.iterdir())
    with BrokerThread(data, AT_ONCE) as broker:
        create_topic(broker.bootstrap, "again", {})
