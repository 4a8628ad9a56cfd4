"""Asks transaction coordinators on other brokers, for the partitions that this broker leads.

The leader of a partition asks before the first batch of a transaction there (KIP-890): whether an
older client has added the partition, or to add it for a newer one. See `verification_queue.py`.
"""

import asyncio
from collections.abc import Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...clients.topic_partition import TopicPartition
from .broker_peers import BrokerPeers
from .transaction_markers import MarkerErrors
from .transaction_shard import Addition
from .verification_queue import Entry, Question, VerificationQueue

_FIRST_BATCHED = 4
_BROKERS_MAX = 10_000
_LOOP = "questions to transaction coordinators"


class VerificationChannel:
    """See the top of this file."""

    def __init__(self, peers: BrokerPeers, supervisor: Supervisor) -> None:
        self._peers = peers
        self._supervisor = supervisor
        self._queue = VerificationQueue()
        self._tasks = TaskOwner(_BROKERS_MAX)

    def join(
        self, broker_id: int, addition: Addition, *, verify_only: bool
    ) -> asyncio.Future[MarkerErrors]:
        """The coordinator's answer for each partition.

        NETWORK_EXCEPTION if its broker does not answer. COORDINATOR_NOT_AVAILABLE if none is up.
        """
        future: asyncio.Future[MarkerErrors] = asyncio.get_running_loop().create_future()
        question = Question(addition, verify_only)
        if not self._peers.is_reachable(broker_id):
            Entry(question, future).refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return future
        answer = self._queue.add(broker_id, question, future)
        self._pump()
        return answer

    async def stop(self) -> None:
        """Answer NETWORK_EXCEPTION to all that wait."""
        await self._tasks.stop()
        self._queue.refuse_all(ErrorCode.NETWORK_EXCEPTION)

    def _pump(self) -> None:
        for broker_id in self._queue.ready():
            entries = self._queue.take(broker_id)
            self._tasks.start(self._ask(broker_id, entries), f"{_LOOP} on broker {broker_id}")

    async def _ask(self, broker_id: int, entries: Sequence[Entry]) -> None:
        try:
            with self._supervisor.attempt(_LOOP, broker_id):
                await self._settle(broker_id, entries)
        finally:
            self._queue.answered(broker_id)
            for entry in entries:
                entry.refuse(ErrorCode.NETWORK_EXCEPTION)
        self._pump()

    async def _settle(self, broker_id: int, entries: Sequence[Entry]) -> None:
        request = AddPartitionsToTxnRequest(
            transactions=[_transaction(entry.question) for entry in entries]
        )
        try:
            response = await self._peers.request(broker_id, request, AddPartitionsToTxnResponse)
        except KafkaError as error:
            _refuse_all(entries, error.code)
            return
        if response.error_code:
            # Clients do not learn that the broker, not they, was refused.
            _refuse_all(entries, ErrorCode.INVALID_TXN_STATE)
            return
        by_id = {each.question.addition.transactional_id: each for each in entries}
        for result in response.results_by_transaction:
            entry = by_id.get(result.transactional_id)
            if entry is not None:
                entry.settle(
                    {
                        TopicPartition(topic.name, each.partition_index): ErrorCode(
                            each.partition_error_code
                        )
                        for topic in result.topic_results
                        for each in topic.results_by_partition
                    }
                )


def _refuse_all(entries: Sequence[Entry], error: ErrorCode) -> None:
    """Answer that the broker could not be asked.

    A coordinator that is too old to verify is taken at the client's word, as in Kafka.
    """
    for entry in entries:
        is_too_old = error is ErrorCode.UNSUPPORTED_VERSION and entry.question.verify_only
        is_own = error is ErrorCode.INVALID_TXN_STATE
        failure = error if is_own else ErrorCode.NETWORK_EXCEPTION
        entry.refuse(ErrorCode.NONE if is_too_old else failure)


def _transaction(question: Question) -> AddPartitionsToTxnTransaction:
    addition, verify_only = question
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, partition in sorted(addition.partitions):
        named = topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic))
        named.partitions.append(partition)
    return AddPartitionsToTxnTransaction(
        transactional_id=addition.transactional_id,
        producer_id=addition.producer_id,
        producer_epoch=addition.producer_epoch,
        verify_only=verify_only,
        topics=list(topics.values()),
    )
