"""kill -9 of the broker, of the store and of both in the middle of uploads in parts.

A store keeps the parts of an upload that nobody finished, and somebody pays for them. One minute
after both are back, nothing is left of any upload that a kill has cut short.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway
from tierlog.tests.tiering.servers.server import FETCH_SECONDS
from tierlog.tests.waiting import wait_until
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.store import s3_store

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("TIERLOG_UPLOAD_KILLS", "4"))
TOPIC = "cut-short"
VALUE_BYTES = 100_000
SEGMENT_BYTES = 24 << 20
RECORDS_A_TURN = 2 * SEGMENT_BYTES // VALUE_BYTES
PROMISED_S = 60
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "100",
}
PROPERTIES = {
    "remote.log.manager.task.interval.ms": "1000",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}


class Upload(NamedTuple):
    """An upload in parts that the bucket keeps."""

    key: str
    upload_id: str


async def _uploads(gateway: VersityGateway) -> set[Upload]:
    location, pool = gateway.location, ThreadedPool(1, "test")
    client, _ = await s3_store.connect(location.url, location.options, pool, 20)
    call = cast("Callable[..., Any]", getattr(client, "_call"))  # noqa: B009  # a test looks inside
    try:
        answer = await call("list_multipart_uploads", Bucket=BUCKET)
    finally:
        await client.close()
        pool.stop()
    found = cast("list[dict[str, str]]", answer.get("Uploads") or [])
    return {Upload(each["Key"], each["UploadId"]) for each in found}


class Kill(NamedTuple):
    """What one kill left, and for how long."""

    victim: str
    left: int
    gone_after_s: float

    def __str__(self) -> str:
        return f"{self.victim}: {self.left} left, gone after {self.gone_after_s:.1f} s"


class UploadKills:
    """A broker and its store, killed again and again in the middle of uploads."""

    def __init__(self, node: TierlogNode, gateway: VersityGateway) -> None:
        self._node = node
        self._gateway = gateway

    def uploads(self) -> set[Upload]:
        return asyncio.run(_uploads(self._gateway))

    def _has_parts(self) -> bool:
        # Looked at on the store's disk, where a look costs nothing: an upload soon is done.
        folder = self._gateway.directory / "buckets" / BUCKET / ".sgwtmp" / "multipart"
        return any(True for _ in live_paths(folder, "*/*/*"))

    def _produce(self) -> None:
        values = (b"%010d" % number * (VALUE_BYTES // 10) for number in range(RECORDS_A_TURN))
        client = CLIENTS["confluent-kafka"]
        assert client.produce(self._node.bootstrap, TOPIC, values) == RECORDS_A_TURN

    def _freeze_an_upload(self) -> None:
        """Return with the store stopped in its tracks, and an upload in it."""
        wait_until(self._has_parts, 60, lambda: f"nothing is uploaded\n{self._node.log_tail()}")
        self._gateway.freeze()

    def kill(self, victim: str) -> Kill:
        self._produce()
        self._freeze_an_upload()
        if victim in {"broker", "both"}:
            self._node.kill()
        if victim in {"store", "both"}:
            self._gateway.stop()
            self._gateway.start()
        else:
            self._gateway.thaw()
        left = self.uploads()
        if victim in {"broker", "both"}:
            self._node.start()
        back = time.monotonic()
        wait_until(
            lambda: not left & self.uploads(),
            PROMISED_S,
            lambda: f"{left & self.uploads()} are left by {victim}\n{self._node.log_tail()}",
        )
        return Kill(victim, len(left), time.monotonic() - back)

    def kills(self) -> Iterator[Kill]:
        """The broker's turn, the store's, both. An upload may be done in the moment of its kill."""
        missed = 0
        for victim in cycle(("broker", "store", "both")):
            done = self.kill(victim)
            if done.left:
                yield done
            else:
                missed += 1
                assert missed <= 5 * KILLS, "the kills meet no uploads"


@pytest.mark.slow
@pytest.mark.requires("go")
@pytest.mark.timeout(FETCH_SECONDS + 3600)
def test_a_minute_after_a_kill_nothing_is_left_of_the_upload_that_it_cut_short(
    tmp_path: Path,
) -> None:
    (tmp_path / "store").mkdir()
    with (
        VersityGateway(tmp_path / "store") as gateway,
        TierlogNode(tmp_path / "node", properties=PROPERTIES | gateway.properties()) as node,
    ):
        CLIENTS["confluent-kafka"].create_topic(node.bootstrap, TOPIC, TOPIC_CONFIG)
        story = UploadKills(node, gateway)
        kills: list[Kill] = []
        for number, each in enumerate(islice(story.kills(), KILLS), 1):
            print(f"kill {number}, {each}", flush=True)
            kills.append(each)
        assert {each.victim for each in kills} == {"broker", "store", "both"}
        wait_until(lambda: not story.uploads(), PROMISED_S, lambda: str(story.uploads()))
        assert "Traceback" not in node.output
