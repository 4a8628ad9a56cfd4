"""One node of a quorum of several, as its controller sees it: `MetadataQuorum` over the shell.

    Quorum (shell of the raft core) -> on_leader, on_high_watermark, on_snapshot_loaded, on_failure
    QuorumMember                    -> the same, with on_elected(epoch) and on_deposed in its place

Rules (Kafka's `KafkaRaftClient.ListenerContext`):

- the controller hears that it leads only after it has replayed everything below the start of the
  epoch, which may take many turns of the event loop, and only while this node still leads it;
- it hears at once that it no longer leads, once for each time that it heard that it does;
- only the leader of exactly this epoch appends, at this moment and not as of an earlier event.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.schema import Message
from ...storage.remote.remote_lineage import OffsetAndEpoch
from ..quorum.quorum import Quorum
from .metadata_quorum import NO_LEADER, QuorumListener

if TYPE_CHECKING:
    from ..quorum.quorum_channel import QuorumTransport
    from ..raft.raft import RaftCore
    from ..raft.voter_set import Address
    from .raft_storage import RaftStorage

_NO_EPOCH = -1

_log = logging.getLogger(__name__)


class QuorumMember:
    """See the module. It owns the shell; `start` and `stop` are those of both."""

    def __init__(
        self,
        node_id: int,
        core: "RaftCore",
        storage: "RaftStorage",
        transport: "QuorumTransport",
        executor: Executor,
    ) -> None:
        """`executor` syncs the metadata log and the state file, one after the other."""
        self._node_id = node_id
        self._storage = storage
        self._transport = transport
        self.quorum = Quorum(core, storage, transport, self, executor)
        """The shell, for requests of other nodes."""
        self._listener: QuorumListener | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._high_watermark = 0
        # Whether the controller has yet to replay or to publish some of what is committed.
        self._is_behind = False
        # The epoch that this node leads and its start; None once the controller has heard of it.
        self._won: tuple[int, int] | None = None
        # The epoch that the controller leads as far as it has heard.
        self._claimed = _NO_EPOCH

    @property
    def leader_id(self) -> int:
        """See `MetadataQuorum`."""
        leader_id = self.quorum.leader_id
        return NO_LEADER if leader_id is None else leader_id

    @property
    def leader_address(self) -> "Address | None":
        """Where the leader serves controllers and brokers; None if it is unknown."""
        return self.quorum.leader_address

    @property
    def refusals(self) -> Mapping[str, str]:
        """Why the last request to a node of the quorum failed, by its address."""
        return self._transport.refusals

    def on_leader_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the leader or the epoch has changed. It must not block."""
        self._callbacks.append(callback)

    async def start(self, listener: QuorumListener) -> None:
        """Take part in the quorum. The listener must have replayed the newest local snapshot."""
        self._listener = listener
        await self.quorum.start()

    async def stop(self, timeout_s: float) -> None:
        """Resign if this node leads, and take no further part; wait for the others for a while."""
        if self._listener is None:
            await self.quorum.abort()
        else:
            await self.quorum.stop(timeout_s)

    # The methods of MetadataQuorum.

    def append(self, records: Sequence[Message], epoch: int) -> int:
        """See `MetadataQuorum`. On a failed disk this node gives up the lead."""
        quorum = self.quorum
        if not quorum.is_leader or quorum.epoch != epoch:
            raise KafkaError(
                ErrorCode.NOT_CONTROLLER, f"This node does not lead epoch {epoch} any more."
            )
        try:
            return self._storage.append(records, epoch)
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                quorum.resign(epoch)
            raise

    async def flush(self) -> None:
        """See `MetadataQuorum`. It returns at once: the shell syncs and replicates."""
        self.quorum.appended()
        # A busy controller never waits for anything else.
        await asyncio.sleep(0)

    async def resign(self) -> None:
        """See `MetadataQuorum`."""
        self.give_up()

    def give_up(self) -> None:
        """As `resign`; does nothing if this node does not lead. May be called from a callback."""
        won = self._claimed if self._won is None else self._won[0]
        self._depose()
        if won != _NO_EPOCH:
            self.quorum.resign(won)

    # The methods of the shell's listener.

    def on_leader(self, leader_id: int | None, epoch: int, epoch_start_offset: int) -> None:
        """See `quorum.QuorumListener`."""
        self._depose()
        if leader_id == self._node_id:
            self._won = (epoch, epoch_start_offset)
            self._claim()
        for callback in self._callbacks:
            callback()

    def on_high_watermark(self, offset: int) -> None:
        """See `quorum.QuorumListener`."""
        self._high_watermark = offset
        if not self._is_behind:
            self._go_on()

    def on_snapshot_loaded(self, snapshot_id: OffsetAndEpoch) -> None:
        """See `quorum.QuorumListener`."""
        assert self._claimed == _NO_EPOCH, "a leader never loads a snapshot"
        self._controller.on_snapshot_loaded()
        if not self._is_behind:
            self._go_on()

    def on_failure(self, message: str) -> None:
        """See `quorum.QuorumListener`."""
        self._won, self._claimed = None, _NO_EPOCH
        self._controller.on_quorum_failure(message)

    @property
    def _controller(self) -> QuorumListener:
        assert self._listener is not None, "the shell reports nothing before it is started"
        return self._listener

    def _go_on(self) -> None:
        """Have the controller do what fits into this turn, and the rest in later ones.

        The quorum's events come in between.
        """
        self._is_behind = not self._controller.on_high_watermark(self._high_watermark)
        if self._is_behind:
            self.quorum.in_a_later_turn(self._go_on)
        else:
            self._claim()

    def _claim(self) -> None:
        """Notify the controller that it leads, if it does and has replayed what was before."""
        if self._won is None or self._is_behind:
            return
        epoch, start = self._won
        # The core may be ahead of what it has announced: then the next event says that it is over.
        leads = self.quorum.is_leader and self.quorum.epoch == epoch
        if not leads or self._high_watermark <= start:
            return
        self._won, self._claimed = None, epoch
        try:
            self._controller.on_elected(epoch)
        except KafkaError as error:
            _log.warning(
                "This node gives up the lead of epoch %d, for its controller cannot begin: %s",
                epoch,
                error,
            )
            self.give_up()
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._controller.on_quorum_failure(str(error))
        else:
            self.quorum.appended()

    def _depose(self) -> None:
        claimed, self._claimed, self._won = self._claimed, _NO_EPOCH, None
        if claimed != _NO_EPOCH:
            self._controller.on_deposed()
