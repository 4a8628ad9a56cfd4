"""Which replicas go where when a broker is to leave. Nothing here does I/O."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ...clients.text_table import counted
from .control_messages import RefusedError


class Partition(NamedTuple):
    """A partition as a broker's metadata has it."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


def moves_away_from(
    leaving: int, partitions: Iterable[Partition], brokers: Collection[int]
) -> Mapping[tuple[str, int], tuple[int, ...]]:
    """The new replicas of each partition that has one on the broker that leaves.

    Its place, and so the preferred leadership, goes to the broker with the fewest replicas among
    those that have none of the partition. Raises RefusedError if there is no such broker.
    """
    all_partitions = list(partitions)
    load = Counter(replica for partition in all_partitions for replica in partition.replicas)
    moves: dict[tuple[str, int], tuple[int, ...]] = {}
    for partition in all_partitions:
        if leaving not in partition.replicas:
            continue
        free = [
            broker for broker in brokers if broker != leaving and broker not in partition.replicas
        ]
        if not free:
            raise RefusedError(
                f"broker-{leaving} cannot leave: {partition.name} has"
                f" {counted(len(partition.replicas), 'replica')}, and no other broker is free"
                " to take the one that is there. Add a broker first (`tierlog cluster add`), or"
                " delete the topic."
            )
        target = min(free, key=lambda each: (load[each], each))
        load[target] += 1
        moves[partition.topic, partition.partition] = tuple(
            target if replica == leaving else replica for replica in partition.replicas
        )
    return moves
