"""Which partitions of the metadata topic this broker reads, and for what. Decides only.

    needed by               until
    user partitions         `forget`: they are led or followed here, or have a term of work
    publications            each is read back or has failed
    watched partitions      the next `watch`: this broker looks for deleted topics in them
    removals at work        the next `watch` without them
    everything              for ever, once `watch_all` was called

A metadata partition that nothing needs is dropped, with all its state, so that what a broker reads
does not grow with its cluster. If it is needed again, it is read from its snapshot or its beginning
(KAFKA-16105). Nothing is dropped before the next `watch`: partitions come and go in groups.
"""

from collections import Counter
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager

from ...clients.topic_partition import TopicIdPartition
from .metadata_events import metadata_partition


class MetadataAssignment:
    """See the top of this file."""

    def __init__(self) -> None:
        self._users: set[TopicIdPartition] = set()
        self._publishing: Counter[TopicIdPartition] = Counter()
        self._watched: set[int] = set()
        self._removing: set[TopicIdPartition] = set()
        self._is_everything = False
        self._may_drop = False
        self._current: set[int] = set()

    @property
    def is_needed(self) -> bool:
        """Whether anything must be read at all."""
        return bool(
            self._is_everything
            or self._users
            or self._publishing
            or self._watched
            or self._removing
        )

    def add(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Read the metadata of these user partitions until `forget`."""
        self._users.update(partitions)

    def forget(self, partition: TopicIdPartition) -> None:
        """The metadata of this user partition is not needed by it any more."""
        self._users.discard(partition)

    @contextmanager
    def publishing(self, partition: TopicIdPartition) -> Generator[None]:
        """Read the metadata of a user partition while an event of it is published."""
        self._publishing[partition] += 1
        try:
            yield
        finally:
            self._publishing[partition] -= 1
            if not self._publishing[partition]:
                del self._publishing[partition]

    def watch(self, numbers: Iterable[int], removing: Iterable[TopicIdPartition]) -> None:
        """Read these metadata partitions and those of removals; drop what nothing needs."""
        self._watched = set(numbers)
        self._removing = set(removing)
        self._may_drop = True

    def watch_all(self) -> None:
        """Read everything, and drop nothing."""
        self._is_everything = True

    def update(self, partitions: int) -> set[int]:
        """The metadata partitions to read now, of a topic with this many."""
        needed = self._needed_partitions(partitions)
        self._current = needed if self._may_drop else self._current | needed
        self._may_drop = False
        return self._current

    def _needed_partitions(self, partitions: int) -> set[int]:
        if self._is_everything:
            return set(range(partitions))
        users: Collection[TopicIdPartition]
        numbers = {each for each in self._watched if each < partitions}
        for users in (self._users, self._publishing, self._removing):
            numbers.update(metadata_partition(user, partitions) for user in users)
        return numbers
