"""A queue of partitions that the event loop has yet to create, delete, change or configure.

A request of fifty bytes may create ten thousand partitions, each with a directory and two files:
creating all of them at once would block every client for many seconds. So one turn of the loop
creates a few right away, which is enough for most requests; the rest wait here and are created a
few per turn, with other requests served in between. Kafka's brokers, too, answer CreateTopics when
the topic is recorded and create the logs when they get the record; until then clients must retry
(NOT_LEADER_OR_FOLLOWER).

A start gives thousands of partitions their roles, and a broker that is fenced changes as many. Most
of that waits here, too: the same loop answers the heartbeats and the quorum's requests, and a
broker without an answer in time is fenced next. Until its turn a partition is as if this broker had
heard of the change later.

Each turn is limited by counts, not by time, so that a simulation can replay it.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from itertools import islice

from ...clients.topic_partition import TopicPartition

AT_ONCE = 64
"""The most partitions that are created or deleted without waiting for a later turn."""
_MADE_PER_TURN = 4
_DELETED_PER_TURN = 64
"""More than for creation: a deletion is a rename, with one fsync of the directory per turn."""
CHANGED_AT_ONCE = 96
"""The most partitions whose leader, replicas or ISR change without waiting for a later turn."""
CHANGED_PER_TURN = 96
CONFIGURED_AT_ONCE = 256
"""The most partitions that get a new configuration without waiting for a later turn, and then in
each turn. One change of a broker's defaults is one for all its partitions."""
_RETRY_S = 1.0

Make = Callable[[TopicPartition], None]
Delete = Callable[[list[TopicPartition]], None]
Change = Callable[[list[TopicPartition]], None]


class PartitionBacklog:
    """See the top of this file. `make` creates one partition; `delete` deletes several, `change`
    changes and `configure` configures them."""

    def __init__(self, make: Make, delete: Delete, change: Change, configure: Change) -> None:
        self._make = make
        self._configure = configure
        self._delete = delete
        self._change = change
        self._new: dict[TopicPartition, None] = {}
        self._again: dict[TopicPartition, None] = {}
        self._deleted: dict[TopicPartition, None] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._configured: dict[TopicPartition, None] = {}
        self._room = AT_ONCE
        self._turn: asyncio.Handle | None = None
        self._retry: asyncio.Handle | None = None
        self._is_stopped = False
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __len__(self) -> int:
        queues = self._new, self._again, self._deleted, self._changed, self._configured
        return sum(map(len, queues))

    def is_waiting(self, name: TopicPartition) -> bool:
        """Whether a partition waits to be created or changed."""
        return name in self._changed or name in self._new or name in self._again

    async def until_empty(self) -> None:
        """Wait until all is done but what is tried again after a failure."""
        await self._is_empty.wait()

    def has_room(self) -> bool:
        """Take the room for one more creation or deletion in this turn; False if none is left."""
        self._wake()
        self._room -= 1
        return self._room >= 0

    def make_later(self, name: TopicPartition) -> None:
        if self._is_stopped:
            return
        self._new[name] = None
        self._wake()

    def change_later(self, names: Collection[TopicPartition]) -> None:
        if self._is_stopped or not names:
            return
        self._changed.update(dict.fromkeys(names))
        self._wake()

    def configure_later(self, name: TopicPartition) -> None:
        if self._is_stopped:
            return
        self._configured[name] = None
        self._wake()

    def make_again(self, name: TopicPartition) -> None:
        """Try again later to create a partition, for example if file descriptors ran out."""
        if self._is_stopped:
            return
        self._again[name] = None
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._try_again)

    def delete_later(self, names: Iterable[TopicPartition]) -> None:
        self._deleted.update(dict.fromkeys(names))
        self._wake()

    def will_delete(self, name: TopicPartition) -> bool:
        """Whether the partition's log is queued for deletion."""
        return name in self._deleted

    def discard(self, name: TopicPartition) -> None:
        """Remove a partition that has been created or changed, or is no longer wanted."""
        self._new.pop(name, None)
        self._changed.pop(name, None)
        self._again.pop(name, None)

    def settle_deletion(self, name: TopicPartition) -> None:
        """Delete the log of a deleted topic's partition now, if its deletion is still queued."""
        if name in self._deleted:
            del self._deleted[name]
            self._delete([name])

    def stop(self) -> None:
        """Do all queued deletions; the next start creates the queued partitions.

        No partition is queued for creation from now on, as the logs may be closed by its turn.
        """
        self._is_stopped = True
        for handle in (self._turn, self._retry):
            if handle is not None:
                handle.cancel()
        self._turn = self._retry = None
        self._is_empty.set()
        self._new.clear()
        self._again.clear()
        self._changed.clear()
        self._configured.clear()
        if self._deleted:
            self._delete(_take(self._deleted, len(self._deleted)))

    def _wake(self) -> None:
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._do_some)
            self._is_empty.clear()

    def _do_some(self) -> None:
        self._turn = None
        self._room = AT_ONCE
        try:
            if self._changed:
                self._change(_take(self._changed, CHANGED_PER_TURN))
            elif self._configured:
                self._configure(_take(self._configured, CONFIGURED_AT_ONCE))
            elif self._deleted:
                self._delete(_take(self._deleted, _DELETED_PER_TURN))
            elif self._new:
                for _ in range(min(_MADE_PER_TURN, len(self._new))):
                    # One at a time, so that an unexpected failure affects only one partition.
                    self._make(*_take(self._new, 1))
        finally:
            # Even after such a failure, so that the others don't wait forever.
            if self._changed or self._configured or self._deleted or self._new:
                self._wake()
            else:
                self._is_empty.set()

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
