"""Asks the controller for other ISRs of the partitions that this broker leads (KIP-497).

A follower that has caught up is to join at its fetch; followers that lag are to leave at a scan
every half of `replica.lag.time.max.ms`. One AlterPartition request of the broker is in flight at a
time: what is decided meanwhile goes into the next one, and a newer proposal for a partition
replaces an older one (`AlterPartitionManager`).

A request whose answer is lost is sent again: the controller has then made the change already, and
answers with the state as it is. A proposal that newer metadata has overtaken is dropped.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicIdPartition
from ..partition.isr import ErrorReaction, IsrAnswer, IsrProposal
from ..partition.partition import Partition

_log = logging.getLogger(__name__)

_PER_REQUEST_MAX = 1_000
_ANSWERS_A_TURN = 64
"""Each may answer many who wait, and is logged."""
_RETRY_SECONDS = 0.05
"""Kafka's pause after a request that failed as a whole."""

SENDING = "Changes of ISRs"
SCAN = "Scan for lagging followers"
"""The names under which the supervisor counts failures."""

Answers = Mapping[TopicIdPartition, IsrAnswer | ErrorCode]


class IsrRequests(Protocol):
    """How proposals reach the controller."""

    async def alter(self, proposals: Mapping[TopicIdPartition, IsrProposal]) -> Answers:
        """The controller's state of each partition, or its error. Raises KafkaError."""
        ...


class IsrSender:
    """See the top of this file."""

    def __init__(
        self,
        requests: IsrRequests,
        partitions: Callable[[], Collection[Partition]],
        on_high_watermark: Callable[[Partition], None],
        environment: Environment,
        supervisor: Supervisor,
        max_lag_ms: int,
    ) -> None:
        """`partitions` are those with a replica here; `on_high_watermark` completes who waits."""
        self._requests = requests
        self._partitions = partitions
        self._on_high_watermark = on_high_watermark
        self._environment = environment
        self._supervisor = supervisor
        self._scan_seconds = max(max_lag_ms, 2) / 2_000
        self._pending: dict[TopicIdPartition, tuple[Partition, IsrProposal]] = {}
        self._has_work = asyncio.Event()
        self._tasks = TaskOwner(2)

    def start(self) -> None:
        """Begin to send, and to look for followers that lag."""
        self._tasks.start(self._send_all(), "ISR changes")
        self._tasks.start(self._scan_all(), "ISR scan")

    async def stop(self) -> None:
        """Send nothing more; the next leader decides for itself."""
        await self._tasks.stop()

    def on_follower_fetch(self, partition: Partition, replica_id: int) -> None:
        """Propose to add a follower that has caught up with this fetch."""
        if replica_id not in partition.isr_state.isr:
            self._submit(partition, partition.propose_expansion(replica_id), "Expanding")

    def scan(self) -> None:
        """Propose to remove followers that have lagged for too long."""
        now_ms = self._environment.wall_clock_ms()
        for partition in self._partitions():
            if partition.is_leader and len(partition.isr_state.isr) > 1:
                self._submit(partition, partition.propose_shrink(now_ms), "Shrinking")

    def _submit(self, partition: Partition, proposal: IsrProposal | None, verb: str) -> None:
        if proposal is None:
            return
        _log.info(
            "%s the ISR of %s from %s to %s (high watermark %d, end offset %d)",
            verb,
            partition.topic_partition,
            _ids(partition.isr_state.isr),
            _ids(replica.broker_id for replica in proposal.isr),
            partition.log.high_watermark,
            partition.log.log_end_offset,
        )
        self._pending[partition.topic_id_partition] = (partition, proposal)
        self._has_work.set()

    async def _scan_all(self) -> None:
        while True:
            await asyncio.sleep(self._scan_seconds)
            with self._supervisor.attempt(SCAN):
                self.scan()

    async def _send_all(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            with self._supervisor.attempt(SENDING):
                await self._send_once()
            if self._pending:
                self._has_work.set()
                await asyncio.sleep(_RETRY_SECONDS + self._supervisor.pause_seconds(SENDING))

    async def _send_once(self) -> None:
        """Send what waits, in one request, and apply its answers; what must be retried waits on."""
        batch: dict[TopicIdPartition, tuple[Partition, IsrProposal]] = {}
        for name in list(self._pending)[:_PER_REQUEST_MAX]:
            partition, proposal = self._pending.pop(name)
            if partition.awaits(proposal):
                batch[name] = (partition, proposal)
        if not batch:
            return
        try:
            answers = await self._requests.alter({name: each for name, (_, each) in batch.items()})
        except KafkaError as error:
            _log.info("Could not ask for changes of %d ISRs, trying again: %s", len(batch), error)
            self._send_again(batch)
            return
        for number, (name, (partition, proposal)) in enumerate(batch.items(), 1):
            answer = answers.get(name, ErrorCode.UNKNOWN_SERVER_ERROR)
            if self._must_retry(partition, proposal, answer):
                self._pending.setdefault(name, (partition, proposal))
            if not number % _ANSWERS_A_TURN:
                await asyncio.sleep(0)

    def _send_again(self, batch: Mapping[TopicIdPartition, tuple[Partition, IsrProposal]]) -> None:
        """Let what had no answer wait on; `_send_once` drops what metadata has overtaken."""
        for name, unanswered in batch.items():
            self._pending.setdefault(name, unanswered)

    def _must_retry(
        self, partition: Partition, proposal: IsrProposal, answer: IsrAnswer | ErrorCode
    ) -> bool:
        if isinstance(answer, ErrorCode):
            reaction = partition.take_isr_error(proposal, answer)
            if reaction is not ErrorReaction.RETRY:
                _log.info(
                    "The controller refused the ISR %s of %s: %s (%s)",
                    _ids(replica.broker_id for replica in proposal.isr),
                    partition.topic_partition,
                    answer.name,
                    reaction.value,
                )
            return reaction is ErrorReaction.RETRY
        if partition.take_isr_answer(answer, self._environment.wall_clock_ms()):
            self._on_high_watermark(partition)
        _log.info(
            "ISR of %s updated to %s and version updated to %d",
            partition.topic_partition,
            _ids(answer.isr),
            answer.partition_epoch,
        )
        return False


def _ids(broker_ids: Iterable[int]) -> str:
    return ",".join(map(str, broker_ids))
