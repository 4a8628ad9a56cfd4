"""Partitions that wait until the loop has time to make or to delete their files.

A request of fifty bytes may ask for ten thousand partitions, and each takes a directory and two
files: done at once that silences every client for many seconds. So one turn of the loop does a few
right away, which is all that most requests need; the rest waits here and is done a few a turn,
between which everybody else is served. Kafka's brokers, too, answer a creation when it is recorded
and make the logs when they hear of it; until then clients are told to come again
(NOT_LEADER_OR_FOLLOWER).

Counts, not clocks, decide how much is done in a turn: a simulation replays it.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice

from ...clients.topic_partition import TopicPartition

AT_ONCE = 64
"""Partitions that are made or deleted in the turn that has asked for them."""
_MADE_PER_TURN = 4
_DELETED_PER_TURN = 64
"""A deletion is a rename, and one fsync of the directory for all of a turn."""
_RETRY_S = 1.0

Make = Callable[[TopicPartition], None]
Delete = Callable[[list[TopicPartition]], None]


class PartitionBacklog:
    """See the top of this file. `make` does the work for one partition, `delete` for some."""

    def __init__(self, make: Make, delete: Delete) -> None:
        self._make = make
        self._delete = delete
        self._new: dict[TopicPartition, None] = {}
        self._again: dict[TopicPartition, None] = {}
        self._deleted: dict[TopicPartition, None] = {}
        self._room = AT_ONCE
        self._turn: asyncio.Handle | None = None
        self._retry: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._new) + len(self._again) + len(self._deleted)

    def has_room(self) -> bool:
        """Whether one more partition may be made or deleted in this turn."""
        self._wake()
        self._room -= 1
        return self._room >= 0

    def make_later(self, name: TopicPartition) -> None:
        self._new[name] = None
        self._wake()

    def make_again(self, name: TopicPartition) -> None:
        """It could not be made for want of descriptors: try again after a while."""
        self._again[name] = None
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._try_again)

    def delete_later(self, names: Iterable[TopicPartition]) -> None:
        self._deleted.update(dict.fromkeys(names))
        self._wake()

    def discard_new(self, name: TopicPartition) -> None:
        """It is made, or not to be made any more."""
        self._new.pop(name, None)
        self._again.pop(name, None)

    def settle_deletion(self, name: TopicPartition) -> None:
        """Delete what a deleted topic has left under the name, if that still waits."""
        if name in self._deleted:
            del self._deleted[name]
            self._delete([name])

    def stop(self) -> None:
        """Delete what is to be deleted; what is to be made is made by the next start."""
        for handle in (self._turn, self._retry):
            if handle is not None:
                handle.cancel()
        self._turn = self._retry = None
        self._new.clear()
        self._again.clear()
        if self._deleted:
            self._delete(_take(self._deleted, len(self._deleted)))

    def _wake(self) -> None:
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._do_some)

    def _do_some(self) -> None:
        self._turn = None
        self._room = AT_ONCE
        try:
            if self._deleted:
                self._delete(_take(self._deleted, _DELETED_PER_TURN))
            elif self._new:
                for _ in range(min(_MADE_PER_TURN, len(self._new))):
                    # One at a time: a failure that nobody expected is that of one partition.
                    self._make(*_take(self._new, 1))
        finally:
            # Also after such a failure: the others need not wait for ever.
            if self._deleted or self._new:
                self._wake()

    def _try_again(self) -> None:
        self._retry = None
        self._new.update(self._again)
        self._again.clear()
        self._wake()


def _take(names: dict[TopicPartition, None], count: int) -> list[TopicPartition]:
    first_names = list(islice(names, count))
    for name in first_names:
        del names[name]
    return first_names
