"""Computes min ISR and the high watermark from the ISR (KIP-497, KIP-966). Pure functions.

Every in-sync replica holds all records below the high watermark: consumers see nothing beyond it,
and acks=all is answered when it has passed the records. The set that counts is the *maximal* ISR:
every replica that is in sync or may be by the time the controller has answered. So the high
watermark never passes a replica that could be elected. For min ISR only the members count that the
controller has taken in: while they are too few, others that lack the records may be elected
(KIP-966).
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from .replica import Replica


def every_replica(_: Replica) -> bool:
    """Nothing is known against any replica."""
    return True


class IsrView(NamedTuple):
    """The inputs of the high watermark besides the logs."""

    leader_id: int
    maximal_isr: Collection[int]
    # Whether the ISR that the controller has committed is smaller than min ISR.
    is_under_min_isr: bool
    max_lag_ms: int
    # Whether a replica may join the ISR.
    is_eligible: Callable[[Replica], bool] = every_replica


def effective_min_isr(min_insync_replicas: int, replication_factor: int) -> int:
    """min.insync.replicas, limited to the replication factor."""
    return min(min_insync_replicas, replication_factor)


def next_high_watermark(
    current: int, leader_end_offset: int, followers: Iterable[Replica], view: IsrView, now_ms: int
) -> int:
    """The high watermark that the logs allow; never below the current one.

    A caught-up replica outside the ISR holds back the high watermark too: the replica is about to
    join the ISR, and must then hold everything below the high watermark. One that may not join does
    not hold it back (KAFKA-15021). Below min ISR, the high watermark doesn't move.
    """
    if view.is_under_min_isr:
        return current
    lowest = leader_end_offset
    for replica in followers:
        if replica.log_end_offset < lowest and (
            replica.broker_id in view.maximal_isr
            or (
                replica.is_caught_up(leader_end_offset, now_ms, view.max_lag_ms)
                and view.is_eligible(replica)
            )
        ):
            lowest = replica.log_end_offset
    return max(current, lowest)
