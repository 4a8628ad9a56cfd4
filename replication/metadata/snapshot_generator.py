"""Writes snapshots of the metadata while the broker runs, and deletes what they make superfluous.

A snapshot is due when the log after the last one has grown by
`metadata.log.max.record.bytes.between.snapshots`, or is not empty and
`metadata.log.max.snapshot.interval.ms` have passed (Kafka's `SnapshotGenerator`, KIP-630). Both
count from the last snapshot, whichever life of the broker wrote it, so that neither the log nor the
work of a start grows with the number of restarts; Kafka counts from the start.

The image never changes, so it is written while the cluster goes on. The records are encoded in
slices of a few milliseconds with rests between them, and the disk is waited for in a thread.
Retention is applied every minute and after each snapshot. Nothing of that is done while the node
fetches a snapshot from a leader.

A clean stop waits for a snapshot that is due, without rests: a broker that is always stopped soon
after its start would otherwise never finish one, and replay more at each start.
"""

import asyncio
import contextlib
import logging
from concurrent.futures import Executor
from functools import partial

from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from .cluster_image import ClusterDelta, ClusterImage
from .metadata_log import MetadataLog
from .metadata_log_config import MetadataLogConfig
from .metadata_snapshots import SnapshotWriting
from .snapshot_format import SnapshotId, snapshot_batches

_CLEANING_INTERVAL_MS = 60_000
_REST_SECONDS = 0.01
"""The pause after each slice; a slice takes about a fifth of it."""
_STOP_SECONDS = 10.0
"""How long a stop waits for a snapshot that is due; then it is abandoned."""

GENERATION = "Metadata snapshots"
"""The name under which the supervisor counts failures to write or delete snapshots."""

_log = logging.getLogger(__name__)


class SnapshotGenerator:
    """A subscriber of the controller that keeps the metadata log short."""

    def __init__(
        self,
        config: MetadataLogConfig,
        metadata_log: MetadataLog,
        environment: Environment,
        executor: Executor,
        supervisor: Supervisor,
    ) -> None:
        """`executor` waits for the disk; it must not be the one that syncs the metadata log."""
        self._config = config
        self._metadata_log = metadata_log
        self._snapshots = metadata_log.snapshots
        self._environment = environment
        self._executor = executor
        self._supervisor = supervisor
        self._tasks = TaskOwner(1)
        self._wake = asyncio.Event()
        self._work_task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._image: ClusterImage | None = None
        self._started_ms = environment.wall_clock_ms()
        self.latest_bytes = 0
        """The size of the last snapshot that this process wrote; 0 if it wrote none."""
        self._latest_written_ms: int | None = None

    def publish(self, image: ClusterImage, _delta: ClusterDelta) -> None:
        """Take note of a new image, which must be committed."""
        self._image = image
        if self._snapshots.bytes_after_latest >= self._config.max_record_bytes_between_snapshots:
            self._wake.set()

    @property
    def latest_age_ms(self) -> int:
        """How long ago the last snapshot was written, or this process started if it wrote none."""
        since = self._started_ms if self._latest_written_ms is None else self._latest_written_ms
        return max(0, self._environment.wall_clock_ms() - since)

    def start(self) -> None:
        """Begin to write snapshots. Subscribe it to the controller first."""
        self._work_task = self._tasks.start(self._work(), "metadata snapshots")

    async def stop(self) -> None:
        """Stop, once a snapshot that is due or being written is finished, unless that takes long.

        Call it before the metadata log is closed.
        """
        self._stopping.set()
        self._wake.set()
        if self._work_task is not None:
            await asyncio.wait([self._work_task], timeout=_STOP_SECONDS)
        await self._tasks.stop()

    async def _work(self) -> None:
        interval_ms = self._config.max_snapshot_interval_ms or _CLEANING_INTERVAL_MS
        timeout = min(interval_ms, _CLEANING_INTERVAL_MS) / 1000
        is_last = False
        while not is_last:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), timeout)
            self._wake.clear()
            is_last = self._stopping.is_set()
            with self._supervisor.attempt(GENERATION):
                try:
                    await self._generate_if_due()
                finally:
                    # On a full disk, only this makes room for the snapshot.
                    await self._clean()
            with contextlib.suppress(TimeoutError):
                pause = self._supervisor.pause_seconds(GENERATION)
                await asyncio.wait_for(self._stopping.wait(), pause)

    def _due_reason(self, image: ClusterImage) -> str:
        """Why a snapshot of the image is due; empty if it is not."""
        latest = self._snapshots.latest
        if (
            image.offset < 0
            or not self._metadata_log.is_between_changes
            or self._snapshots.is_fetching()
        ):
            return ""
        if latest is not None and latest.offset > image.offset:
            return ""
        config, size = self._config, self._snapshots.bytes_after_latest
        if size >= config.max_record_bytes_between_snapshots:
            return f"{size} bytes were written since the last one"
        if not config.max_snapshot_interval_ms:
            return ""
        if latest is None:
            since = self._snapshots.first_timestamp
        else:
            since = self._snapshots.written_ms(latest)
        age = self._environment.wall_clock_ms() - since
        if age >= config.max_snapshot_interval_ms:
            return f"{age} ms have passed since the last one"
        return ""

    async def _generate_if_due(self) -> None:
        image = self._image
        reason = "" if image is None else self._due_reason(image)
        if image is None or not reason:
            return
        # Most lives of a broker write no snapshot.
        from .image_records import image_records

        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        last_timestamp_ms = self._snapshots.timestamp_before(snapshot_id)
        now_ms = self._environment.wall_clock_ms()
        self._snapshots.roll_if_larger(self._config.max_record_bytes_between_snapshots, now_ms)
        batches = snapshot_batches(
            snapshot_id,
            image_records(image),
            last_timestamp_ms=last_timestamp_ms,
            now_ms=now_ms,
            quorum=self._metadata_log.quorum_records,
        )
        writing = self._snapshots.begin(snapshot_id, self._environment.random_uuid().hex())
        try:
            for batch in batches:
                writing.append(batch)
                await asyncio.sleep(0 if self._stopping.is_set() else _REST_SECONDS)
            await self._in_thread(writing)
        except BaseException:
            writing.abandon()
            raise
        self._snapshots.add(snapshot_id)
        self.latest_bytes = writing.size
        self._latest_written_ms = self._environment.wall_clock_ms()
        _log.info(
            "Wrote snapshot %s of the metadata log (%d bytes), because %s",
            snapshot_id,
            writing.size,
            reason,
        )

    async def _in_thread(self, writing: SnapshotWriting) -> None:
        def finish() -> None:
            writing.sync()
            writing.freeze()

        loop = asyncio.get_running_loop()
        # A thread cannot be interrupted, and nobody else may touch the file meanwhile.
        finishing = loop.run_in_executor(self._executor, finish)
        try:
            await asyncio.shield(finishing)
        except asyncio.CancelledError:
            await asyncio.wait([finishing])
            raise

    async def _clean(self) -> None:
        """Apply retention (Kafka's `KafkaRaftLog.maybeClean`)."""
        loop = asyncio.get_running_loop()
        snapshots = self._snapshots
        now_ms = self._environment.wall_clock_ms()
        while not snapshots.is_fetching():
            due = snapshots.due_deletion(self._config, now_ms)
            if due is None:
                snapshots.delete_pending(now_ms)
                break
            check = partial(snapshots.damage_of, due.snapshot_id)
            damage = await loop.run_in_executor(self._executor, check)
            if snapshots.is_fetching():
                break
            if damage is None:
                snapshots.delete_before(due, now_ms)
            else:
                snapshots.forget(due.snapshot_id, damage)
