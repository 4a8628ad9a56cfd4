"""ListOffsets of very many partitions: looked up and told a few at a time."""

from types import SimpleNamespace
from typing import cast

from tierlog.broker.handlers.list_offsets import handle
from tierlog.broker.request.context import BrokerContext, Deferred, RequestContext
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.partition.append_data import AppendEntry, AppendRequest
from tierlog.tests import wire
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

from ...replication.broker_node import BrokerNode
from ...replication.node import creation

TIME = 1_700_000_000_000
CONTEXT = RequestContext(ApiKey.LIST_OFFSETS, 5, "raw", "", "")


async def ask(
    node: BrokerNode, *asked: wire.ListOffsetsPartition
) -> tuple[int, list[wire.ListOffsetsPartitionResponse]]:
    """How often others had their turn, and the answer."""
    broker = cast("BrokerContext", SimpleNamespace(replica_manager=node.replicas, authorizer=None))
    topic = wire.ListOffsetsTopic(name="t", partitions=list(asked))
    steps = handle(broker, CONTEXT, wire.ListOffsetsRequest(replica_id=-1, topics=[topic]))
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome = cast("wire.ListOffsetsResponse | Deferred[object]", end.value)
            break
        pauses += 1
    if isinstance(outcome, Deferred):
        answer = outcome.then(await outcome.work)
        assert isinstance(answer, wire.ListOffsetsResponse)
    else:
        answer = outcome
    return pauses, answer.topics[0].partitions


async def test_others_have_their_turn_between_them(loop: SimulatedLoop) -> None:
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    await node.controller.create_topics(creation("t"))
    count = 10_000
    asked = [wire.ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(count)]
    pauses, found = await ask(node, *asked)
    assert pauses >= 3 * count // 100
    assert [each.partition_index for each in found] == list(range(count))
    unknown = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (count - 1)
    assert [each.error_code for each in found] == [ErrorCode.NONE, *unknown]
    await node.stop()


async def test_what_takes_long_is_reported_in_its_place(loop: SimulatedLoop) -> None:
    """The first and the last one need a look into a batch, those between them are not there."""
    node = BrokerNode(loop, SimulatedFiles(SimulatedDisk()))
    await node.controller.create_topics(creation("t", partitions=2))
    made = [Record(0, TIME + each, b"k", b"v") for each in range(20_000)]
    for index in (0, 1):
        batch = memoryview(build_batch(made, compression=CompressionType.GZIP))
        entry = AppendEntry(TopicPartition("t", index), batch)
        node.replicas.append_records(AppendRequest([entry]))
    order = [0, *range(2, 300), 1]
    asked = [wire.ListOffsetsPartition(partition_index=i, timestamp=TIME + 7) for i in order]
    _, found = await ask(node, *asked)
    assert [each.partition_index for each in found] == order
    assert [each.offset for each in found] == [7, *[-1] * 298, 7]
    await node.stop()
