"""One transactional id in a shard, driven as the coordinator drives it."""

from itertools import count

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.led_shards import ShardState
from tierlog.coordinator.transaction.transaction_metadata import Transaction
from tierlog.coordinator.transaction.transaction_shard import (
    Addition,
    Ending,
    Initialization,
    TransactionShard,
    Transition,
)

ID = "an-id"


class TransactionDriver:
    """Writes succeed at once; markers only when they are told to."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.ids = count(1_000)
        self.shard = TransactionShard(0, 5)
        self.shard.state = ShardState.ACTIVE

    def take(self) -> int | None:
        return next(self.ids)

    @property
    def transaction(self) -> Transaction:
        found = self.shard.get(ID)
        assert found is not None
        return found

    def write(self, transition: Transition | None) -> ErrorCode:
        """Carry out a transition."""
        assert transition is not None
        if transition.target is not None:
            self.shard.written(transition.target, ErrorCode.NONE, self.now_ms)
        return transition.error

    def initialize(self, known: tuple[int, int] | None = None) -> ErrorCode:
        self.now_ms += 1
        request = Initialization(ID, 60_000, known)
        return self.write(self.shard.initialize(request, self.take, self.now_ms))

    def add(self, *partitions: TopicPartition, version: int = 2) -> ErrorCode:
        self.now_ms += 1
        now = self.transaction
        addition = Addition(ID, now.producer_id, now.producer_epoch, frozenset(partitions), version)
        return self.write(self.shard.add_partitions(addition, self.now_ms))

    def end(self, *, commit: bool, version: int = 2) -> ErrorCode:
        self.now_ms += 1
        now = self.transaction
        ending = Ending(ID, now.producer_id, now.producer_epoch, commit, version)
        return self.write(self.shard.end(ending, self.take, self.now_ms))

    def write_markers(self) -> None:
        """Every partition has its marker now."""
        target = self.shard.markers_written(ID, self.transaction.partitions, self.now_ms)
        assert target is not None
        self.shard.written(target, ErrorCode.NONE, self.now_ms)
