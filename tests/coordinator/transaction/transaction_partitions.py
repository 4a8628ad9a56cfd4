"""Shared by tests: the partitions of a transaction coordinator."""

import asyncio
from collections.abc import Collection

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.result_or_future import ResultOrFuture
from tierlog.coordinator.transaction.transaction_markers import Marker, MarkerErrors

E = ErrorCode


class Partitions:
    """The other side of the door for markers: partitions that accept them, or do not."""

    def __init__(self) -> None:
        self.refuse: dict[TopicPartition, ErrorCode] = {}
        self.markers: list[tuple[Marker, TopicPartition]] = []
        self.asked = 0

    def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> ResultOrFuture[MarkerErrors]:
        self.asked += 1
        errors = {each: self.refuse.get(each, E.NONE) for each in partitions}
        self.markers += [(marker, each) for each, error in sorted(errors.items()) if not error]
        future: asyncio.Future[MarkerErrors] = asyncio.get_running_loop().create_future()
        future.set_result(errors)
        return errors if self.asked % 2 else future
