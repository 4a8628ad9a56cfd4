"""A tier that is not there yet: local data is served, it is said once, and nothing is lost.

Then it appears, and everything that was held back goes there; then the broker is killed, and what
lies in the tier alone is read back byte for byte.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.probe import NotUpError
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.object_store import BUCKET, KEY, SECRET, ObjectStore
from tierlog.tests.scenarios.plain_io import produce, read, value_of
from tierlog.tests.waiting import wait_until

TOPIC = "held-back"
RECORDS = 8_000
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1048576",
}
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "remote.log.manager.task.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "remote.log.manager.task.retry.backoff.ms": "100",
    "remote.log.manager.task.retry.backoff.max.ms": "1000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
}
EVERYTHING = [(each, value_of(each)) for each in range(RECORDS)]
# What s3fs brings along; mapped into the process as soon as it is imported.
COMPANIONS = ("multidict", "aiohttp", "yarl")


def segments(node: TierlogNode) -> list[Path]:
    return sorted((node.directory / "logs" / f"{TOPIC}-0").glob("*.log"))


def warnings(node: TierlogNode) -> list[str]:
    return [line for line in node.output.splitlines() if " WARNING " in line or " ERROR " in line]


def companions(node: TierlogNode) -> list[str]:
    mapped = Path(f"/proc/{node.pid}/maps").read_text()
    return [name for name in COMPANIONS if name in mapped]


def fill(node: TierlogNode) -> int:
    """Produce to a tiered topic; how many segments it has."""
    CLIENTS["confluent-kafka"].create_topic(node.bootstrap, TOPIC, TOPIC_CONFIG)
    sent = produce(node.bootstrap, TOPIC, map(value_of, range(RECORDS)), timeout_ms=30_000)
    assert sent.acknowledged == EVERYTHING
    return len(segments(node))


def assert_said_once(node: TierlogNode, words: Sequence[str]) -> None:
    """One line tells of the trouble, though it is met again and again."""
    wait_until(lambda: bool(warnings(node)), 60, "nothing is said")
    retry_ms = int(PROPERTIES["remote.log.manager.task.retry.backoff.max.ms"])
    with pytest.raises(AssertionError, match="Not within"):
        wait_until(lambda: len(warnings(node)) > 1, 3 * retry_ms / 1000, "one line only")
    (line,) = warnings(node)
    for word in (*words, "Local data is still served", "retried"):
        assert word in line
    for secret in (KEY, SECRET, "Traceback"):
        assert secret not in node.output


@pytest.mark.slow
def test_a_bucket_that_appears_later_gets_everything(tmp_path: Path) -> None:
    with ObjectStore(tmp_path) as store:
        with TierlogNode(tmp_path / "node", properties=PROPERTIES | store.properties) as node:
            assert companions(node) == [], "s3fs was imported before it was needed"
            count = fill(node)
            assert_said_once(node, ["s3://tier/broker is unreachable"])
            assert len(segments(node)) == count, "deleted before it was copied"
            assert read(node.bootstrap, TOPIC, RECORDS) == EVERYTHING

            store.start()
            wait_until(lambda: len(segments(node)) <= 3, 60, lambda: node.output[-2000:])
            wait_until(lambda: len(warnings(node)) == 2, 30, "nothing says that it works")
            assert "The remote tier works again" in warnings(node)[1]
            copied = [key for key in store.bucket().find(BUCKET) if key.endswith(".log")]
            assert len(copied) == count - 1
            assert read(node.bootstrap, TOPIC, RECORDS) == EVERYTHING
            node.kill()
            node.start()
            assert read(node.bootstrap, TOPIC, RECORDS) == EVERYTHING
            assert "Traceback" not in node.output


@pytest.mark.slow
def test_a_directory_that_cannot_be_written_is_reported_in_plain_words(tmp_path: Path) -> None:
    # Nobody makes a directory there, root included.
    with TierlogNode(
        tmp_path / "node", properties=PROPERTIES | {"rsm.config.url": "file:///proc/tierlog/tier"}
    ) as node:
        count = fill(node)
        assert_said_once(node, ["file:///proc/tierlog/tier", "No such file or directory"])
        assert len(segments(node)) == count
        assert read(node.bootstrap, TOPIC, RECORDS) == EVERYTHING


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9/tier", "nothing can be written with http://"),
        ("file://{file}/tier", "/file is a file: name a directory"),
    ],
)
def test_what_can_never_be_a_tier_refuses_the_start(url: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    stated = {"rsm.config.url": url.format(file=tmp_path / "file")}
    node = TierlogNode(tmp_path / "node", properties=PROPERTIES | stated)
    with pytest.raises(NotUpError):
        node.start()
    assert words in node.output
    assert "Traceback" not in node.output
