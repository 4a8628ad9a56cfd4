"""What the controller asks of the quorum that keeps the metadata log, and a quorum of one voter.

    controller -> append, flush, resign
    quorum     -> HighWatermark, ELECTED(epoch), DEPOSED

With one voter what this node has synced is committed, and an election needs nobody else. A quorum
of several nodes (`quorum_member.py`) reports the same three things, but late: the high watermark
moves when a majority has synced, and this node learns that it leads only after it has learned of a
high watermark that includes everything before its epoch (`LeaderChanged` of the raft core).
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Protocol

from ...clients.protocol.schema import Message
from ...clients.runtime.environment import Environment
from .metadata_log import MetadataLog

NO_LEADER = -1


class QuorumListener(Protocol):
    """Callbacks for changes of the metadata log (`RaftClient.Listener`). No call may block."""

    def on_high_watermark(self, offset: int) -> bool:
        """Everything below this offset is committed.

        Returns whether the listener is done with all of it. If not, call it again in a later turn
        of the event loop: it has done what fits into one.
        """
        ...

    def on_elected(self, epoch: int) -> None:
        """This node leads, and all records before its epoch are committed.

        May append before anything else is appended. Raises KafkaError if that fails.
        """
        ...

    def on_deposed(self) -> None:
        """This node no longer leads; what it appended may or may not be committed."""
        ...

    def on_snapshot_loaded(self) -> None:
        """A leader's snapshot has replaced the log; never called while this node leads."""
        ...

    def on_quorum_failure(self, message: str) -> None:
        """This node takes no further part in the quorum; only a restart helps."""
        ...


class MetadataQuorum(Protocol):
    """The quorum, as its leader's controller sees it."""

    @property
    def leader_id(self) -> int:
        """The leader's node id; -1 if unknown."""
        ...

    def append(self, records: Sequence[Message], epoch: int) -> int:
        """Append one change of state as the leader of an epoch; return its last offset.

        Raises KafkaError: KAFKA_STORAGE_ERROR, or another if nothing was appended, as
        NOT_CONTROLLER when this node does not lead the epoch any more.
        """
        ...

    async def flush(self) -> None:
        """Have what was appended synced. The listener hears when it is committed.

        Among several voters it returns before that. Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        ...

    async def resign(self) -> None:
        """Give up the lead. The listener hears of it at once; another election follows.

        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """
        ...


class SoleVoter:
    """A quorum of this node alone."""

    def __init__(
        self, log: MetadataLog, node_id: int, environment: Environment, flush_executor: Executor
    ) -> None:
        self._log = log
        self._node_id = node_id
        self._environment = environment
        # fsyncs run here, so that the event loop doesn't wait for the disk.
        self._flush_executor = flush_executor
        self._listener: QuorumListener | None = None
        self._leads = False

    @property
    def leader_id(self) -> int:
        """See `MetadataQuorum`."""
        return self._node_id if self._leads else NO_LEADER

    def start(self, listener: QuorumListener) -> None:
        """Begin an epoch as its leader. Call `flush_now` or `flush` after it. Blocks on the disk.

        The log must have been replayed: this voter alone decides that all of it is committed.
        """
        self._listener = listener
        self._log.become_leader(self._environment.wall_clock_ms())
        self._leads = True
        listener.on_elected(self._log.epoch)

    def append(self, records: Sequence[Message], epoch: int) -> int:
        """See `MetadataQuorum`."""
        assert self._leads, "only the leader appends"
        assert epoch == self._log.epoch, "a leader appends in its own epoch"
        return self._log.append(records, self._environment.wall_clock_ms())

    def flush_now(self) -> None:
        """As `flush`, but block."""
        self._log.flush()
        while not self._notify_high_watermark():
            pass

    async def flush(self) -> None:
        """See `MetadataQuorum`."""
        log = self._log
        task = log.prepare_flush()
        if task is None:
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._flush_executor, log.run_flush, task)
        except OSError as error:
            raise log.fail_flush(error) from error
        log.complete_flush(task)
        while not self._notify_high_watermark():  # noqa: ASYNC110 -- each call does some of it
            await asyncio.sleep(0)

    async def resign(self) -> None:
        """See `MetadataQuorum`. Nobody else can be elected: this node leads the next epoch.

        What it appended before is committed then, as by any leader that has it in its log.
        """
        listener = self._listener
        assert listener is not None
        self._leads = False
        listener.on_deposed()
        await self.flush()
        self.start(listener)
        await self.flush()

    def _notify_high_watermark(self) -> bool:
        assert self._listener is not None
        return self._listener.on_high_watermark(self._log.high_watermark)
