"""Partitions that wait for their files: a failure with some does not hold the others up."""

import asyncio

from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.partition_backlog import PartitionBacklog

COUNT = 20


def test_partitions_are_made_also_after_some_that_cannot_be() -> None:
    made: list[TopicPartition] = []
    failures: list[object] = []

    def make(names: list[TopicPartition]) -> None:
        if not made and not failures:
            raise RuntimeError("a log that nobody expected")
        made.extend(names)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told: failures.append(told["exception"]))
        backlog = PartitionBacklog(make, lambda names: None)
        for number in range(COUNT):
            backlog.make_later(TopicPartition("orders", number))
        for _ in range(2 * COUNT):
            await asyncio.sleep(0)
        assert len(backlog) == 0

    asyncio.run(story())
    assert len(failures) == 1
    assert made[-1] == TopicPartition("orders", COUNT - 1)
