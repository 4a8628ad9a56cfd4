"""A cluster of two brokers, in which the markers of one topic wait for ever.

The first broker coordinates and leads everything. The second, without which the topic `HELD` has
too few replicas in sync, is down: so a transaction with that partition is decided, and does not
complete.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from tierlog.bench.harness.processes.cluster import Cluster, Kind, separate
from tierlog.clients.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tierlog.clients.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tierlog.clients.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tierlog.clients.record.batch import Record, batches
from tierlog.clients.record.builder import build_batch
from tierlog.coordinator.transaction.transaction_metadata import Transaction
from tierlog.coordinator.transaction.transaction_records import transaction_record

from ..broker_process import RawClient
from ..waiting import wait_until
from .coordinator_requests import HELD, KNOWN

_LOG = f"__transaction_state-0/{0:020}.log"
_VERSION = 2
FIRST, _SECOND = 11, 12
"""The brokers."""
_WITHIN_S = 120
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    # The records are of 2023, and retention must not take them.
    "log.retention.ms": "-1",
}


class HeldMarkers:
    """See the top of this file."""

    def __init__(self, directory: Path, kind: Kind) -> None:
        self.cluster = Cluster(directory, separate((kind,), (kind, kind)), _SETTINGS)

    @property
    def port(self) -> int:
        """Of the broker that coordinates."""
        return self.cluster.nodes[FIRST].port

    def start(self, transactions: Iterable[Transaction]) -> None:
        """Start both, with these transactional ids in the log; then the second one leaves."""
        controller, first, second = self.cluster.nodes.values()
        controller.start()
        first.start()
        self._coordinate()
        first.stop()
        self._append(transactions)
        first.start()
        second.start()
        self._coordinate()
        self._create(KNOWN, FIRST)
        self._create(HELD, FIRST, _SECOND)
        second.stop()
        wait_until(partial(self._in_sync, HELD, FIRST), _WITHIN_S, "the replica is in sync")

    def let_go(self) -> None:
        """The second broker is back."""
        self.cluster.nodes[_SECOND].start()

    def _coordinate(self) -> None:
        """Wait until the first broker coordinates groups and transactions."""
        with RawClient(self.port) as client:
            wait_until(partial(_is_coordinated, client), _WITHIN_S, "no coordinator")

    def _append(self, transactions: Iterable[Transaction]) -> None:
        """Append their states to the log, of which no process is the owner now."""
        path = self.cluster.nodes[FIRST].log_directory / _LOG
        written = path.read_bytes()
        last = list(batches(memoryview(written)))[-1]
        states = [transaction_record(each, _VERSION) for each in transactions]
        batch = build_batch(
            [Record(0, last.max_timestamp, each.key, each.value, ()) for each in states],
            base_offset=last.last_offset + 1,
            leader_epoch=last.partition_leader_epoch,
        )
        path.write_bytes(written + batch)

    def _create(self, topic: str, *replicas: int) -> None:
        """Create a topic that takes records while all of its replicas are in sync."""
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        wanted = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[assignment],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value=str(len(replicas)))],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        with RawClient(self.port) as client:
            answer = client.ask(request, 7, CreateTopicsResponse)
        assert not any(each.error_code for each in answer.topics), answer
        in_sync = partial(self._in_sync, topic, *replicas)
        wait_until(in_sync, _WITHIN_S, f"not all replicas of {topic} are in sync")

    def _in_sync(self, topic: str, *replicas: int) -> bool:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        with RawClient(self.port) as client:
            (described,) = client.ask(request, 9, MetadataResponse).topics
        return [sorted(each.isr_nodes) for each in described.partitions] == [list(replicas)]


def _is_coordinated(client: RawClient) -> bool:
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
        answer = client.ask(request, 4, FindCoordinatorResponse)
        if answer.coordinators[0].error_code:
            return False
    if client.ask(ListGroupsRequest(), 5, ListGroupsResponse).error_code:
        return False
    # The block of producer ids comes behind the first request for one.
    return not any(
        client.ask(
            InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=60_000),
            4,
            InitProducerIdResponse,
        ).error_code
        for each in (None, "probe")
    )


def described(client: RawClient, transactional_ids: list[str]) -> list[TransactionState]:
    """What the coordinator says of these ids, in their order."""
    request = DescribeTransactionsRequest(transactional_ids=transactional_ids)
    states = client.ask(request, 0, DescribeTransactionsResponse).transaction_states
    found = {each.transactional_id: each for each in states}
    return [found[each] for each in transactional_ids]
