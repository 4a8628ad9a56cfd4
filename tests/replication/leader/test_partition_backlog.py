"""Partitions that wait for their files: a failure with some does not hold the others up."""

import asyncio

from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.leader.partition_backlog import PartitionBacklog

COUNT = 20


def _nothing(_: object) -> None:
    """Do nothing to partitions."""


async def test_one_partition_that_cannot_be_made_is_the_only_one_that_is_not() -> None:
    made: list[TopicPartition] = []
    failures: list[object] = []

    def make(name: TopicPartition) -> None:
        if name.partition == 1:
            raise RuntimeError("a log that nobody expected")
        made.append(name)

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    backlog = PartitionBacklog(make, _nothing, _nothing, _nothing)
    for number in range(COUNT):
        backlog.make_later(TopicPartition("orders", number))
    for _ in range(2 * COUNT):
        await asyncio.sleep(0)
    assert len(backlog) == 0
    assert len(failures) == 1
    assert [name.partition for name in made] == [0, *range(2, COUNT)]


async def test_nothing_is_queued_after_the_stop() -> None:
    backlog = PartitionBacklog(_nothing, _nothing, _nothing, _nothing)
    backlog.stop()
    backlog.make_later(TopicPartition("orders", 0))
    backlog.make_again(TopicPartition("orders", 1))
    backlog.change_later([TopicPartition("orders", 2)])
    assert len(backlog) == 0
