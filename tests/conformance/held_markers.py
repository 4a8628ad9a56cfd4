"""A cluster of two brokers, in which the markers of one topic wait for ever.

The first broker coordinates everything. The second, which leads the topic `HELD` alone, is down: so
a transaction with that partition is decided, and does not complete.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from tierlog.bench.cluster import Cluster, Kind, Seat
from tierlog.broker.coordinator.transaction.transaction_metadata import Transaction
from tierlog.broker.coordinator.transaction.transaction_records import transaction_record
from tierlog.clients.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
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

from ..broker_process import RawClient
from ..waiting import wait_until
from .coordinator_requests import HELD, KNOWN

_LOG = f"__transaction_state-0/{0:020}.log"
_VERSION = 2
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
        seats = {1: Seat(kind, "broker,controller"), 2: Seat(kind, "broker")}
        self.cluster = Cluster(directory, seats, _SETTINGS)

    @property
    def port(self) -> int:
        """Of the broker that coordinates."""
        return self.cluster.nodes[1].port

    def start(self, transactions: Iterable[Transaction]) -> None:
        """Start both, with these transactional ids in the log; then the second one leaves."""
        first, second = self.cluster.nodes[1], self.cluster.nodes[2]
        self.cluster.format()
        first.start()
        self._coordinate()
        first.kill()
        self._append(transactions)
        first.start()
        second.start()
        self._coordinate()
        self._create({KNOWN: 1, HELD: 2})
        second.stop()
        wait_until(partial(self._leads, HELD, -1), _WITHIN_S, "the topic has a leader")

    def let_go(self) -> None:
        """The second broker is back."""
        self.cluster.nodes[2].start()

    def _coordinate(self) -> None:
        """Wait until the first broker coordinates groups and transactions."""
        with RawClient(self.port) as client:
            wait_until(partial(_is_coordinated, client), _WITHIN_S, "no coordinator")

    def _append(self, transactions: Iterable[Transaction]) -> None:
        """Append their states to the log, of which no process is the owner now."""
        path = self.cluster.nodes[1].log_directory / _LOG
        written = path.read_bytes()
        last = list(batches(memoryview(written)))[-1]
        states = [transaction_record(each, _VERSION) for each in transactions]
        batch = build_batch(
            [Record(0, last.max_timestamp, each.key, each.value, ()) for each in states],
            base_offset=last.last_offset + 1,
            leader_epoch=last.leader_epoch,
        )
        path.write_bytes(written + batch)

    def _create(self, leaders: Mapping[str, int]) -> None:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[leader])],
            )
            for name, leader in leaders.items()
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        with RawClient(self.port) as client:
            answer = client.ask(request, 7, CreateTopicsResponse)
        assert not any(each.error_code for each in answer.topics), answer
        for name, leader in leaders.items():
            wait_until(partial(self._leads, name, leader), _WITHIN_S, f"{name} has no leader")

    def _leads(self, topic: str, leader: int) -> bool:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        with RawClient(self.port) as client:
            (described,) = client.ask(request, 9, MetadataResponse).topics
        return [each.leader_id for each in described.partitions] == [leader]


def _is_coordinated(client: RawClient) -> bool:
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
        answer = client.ask(request, 4, FindCoordinatorResponse)
        if answer.coordinators[0].error_code:
            return False
    if client.ask(ListGroupsRequest(), 5, ListGroupsResponse).error_code:
        return False
    probe = InitProducerIdRequest(transactional_id="probe", transaction_timeout_ms=60_000)
    return not client.ask(probe, 3, InitProducerIdResponse).error_code


def described(client: RawClient, transactional_ids: list[str]) -> list[TransactionState]:
    """What the coordinator says of these ids, in their order."""
    request = DescribeTransactionsRequest(transactional_ids=transactional_ids)
    states = client.ask(request, 0, DescribeTransactionsResponse).transaction_states
    found = {each.transactional_id: each for each in states}
    return [found[each] for each in transactional_ids]
