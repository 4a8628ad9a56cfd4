"""A producer's next batch right behind its commit, while a marker is still on its way."""

import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, combined
from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.tests import wire

from ..broker_process import RawClient
from ..waiting import wait_until

pytestmark = pytest.mark.slow

ID = "an-id"
NODES = (1, 2, 3)
_SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "add.partitions.to.txn.retry.backoff.max.ms": "25000",
    "broker.session.timeout.ms": "60000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Partition 0 of the topic is led by node 1, and so on."""
    nodes = combined("tierlog", "tierlog", "tierlog")
    with Cluster(tmp_path_factory.mktemp("behind"), nodes, _SETTINGS) as three:
        three.wait_until_caught_up()
        with RawClient(three.nodes[1].port) as client:
            assignments = [
                wire.CreatableReplicaAssignment(partition_index=node - 1, broker_ids=[node])
                for node in NODES
            ]
            topic = wire.CreatableTopic(
                name="t", num_partitions=-1, replication_factor=-1, assignments=assignments
            )
            request = wire.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
            assert not client.ask(request, 7, wire.CreateTopicsResponse).topics[0].error_code
        for node in three.brokers:
            wait_until(partial(knows_topic, node.port), 30, "the topic is not known")
        yield three


def knows_topic(port: int) -> bool:
    with RawClient(port) as client:
        answer = client.ask(wire.MetadataRequest(topics=None), 9, wire.MetadataResponse)
    return any(len(topic.partitions) == len(NODES) for topic in answer.topics)


class Producer:
    """A producer of one transactional id, which writes to any node's partition."""

    def __init__(self, cluster: Cluster) -> None:
        self.clients = {node: RawClient(cluster.nodes[node].port) for node in NODES}
        self.coordinator = 0
        self.identity = (-1, -1)
        wait_until(self._has_come, 60, "no producer id")

    def _has_come(self) -> bool:
        request = wire.FindCoordinatorRequest(key_type=1, coordinator_keys=[ID])
        (found,) = self.clients[1].ask(request, 4, wire.FindCoordinatorResponse).coordinators
        if found.error_code:
            return False
        self.coordinator = found.node_id
        client = self.clients[self.coordinator]
        begin = wire.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        answer = client.ask(begin, 4, wire.InitProducerIdResponse)
        self.identity = (answer.producer_id, answer.producer_epoch)
        return not answer.error_code

    def batch(self, node: int) -> wire.ProduceRequest:
        """The first batch of the present transaction, for the partition that the node leads."""
        producer_id, epoch = self.identity
        records = build_batch(
            [Record(0, 1_700_000_000_000, None, b"value", ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = wire.PartitionProduceData(index=node - 1, records=memoryview(records))
        topic = wire.TopicProduceData(name="t", partition_data=[data])
        return wire.ProduceRequest(
            transactional_id=ID, acks=-1, timeout_ms=30_000, topic_data=[topic]
        )

    def commit(self) -> None:
        producer_id, epoch = self.identity
        request = wire.EndTxnRequest(
            transactional_id=ID, producer_id=producer_id, producer_epoch=epoch, committed=True
        )
        answer = self.clients[self.coordinator].ask(request, 5, wire.EndTxnResponse)
        assert answer.error_code == ErrorCode.NONE
        self.identity = (answer.producer_id, answer.producer_epoch)

    def is_there(self, node: int) -> None:
        """The node has had its turn: it answers on another connection."""
        with RawClient(self.clients[node].socket.getpeername()[1]) as other:
            other.ask(wire.MetadataRequest(topics=[]), 9, wire.MetadataResponse)

    def close(self) -> None:
        for client in self.clients.values():
            client.socket.close()


def error_of(answer: object) -> int:
    assert isinstance(answer, wire.ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def test_a_batch_behind_a_commit_waits_for_the_markers(cluster: Cluster) -> None:
    producer = Producer(cluster)
    silent = next(node for node in (2, 3) if node != producer.coordinator)
    others = [node for node in NODES if node != silent]
    pid = cluster.nodes[silent].pid
    try:
        first = producer.clients[silent].ask(producer.batch(silent), 12, wire.ProduceResponse)
        assert error_of(first) == ErrorCode.NONE
        os.kill(pid, signal.SIGSTOP)
        producer.commit()
        # One of them goes to the coordinator's own broker, one to a broker that has to ask it.
        sent = {node: producer.clients[node].send(producer.batch(node), 12) for node in others}
        for node in others:
            producer.is_there(node)
    finally:
        os.kill(pid, signal.SIGCONT)
    answers = [error_of(producer.clients[node].receive(sent[node])) for node in others]
    assert answers == [ErrorCode.NONE, ErrorCode.NONE]
    producer.commit()
    producer.close()
