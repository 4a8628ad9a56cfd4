"""A replica together with the epoch of its broker (`BrokerState` in AlterPartition, KIP-903)."""

from typing import NamedTuple

NO_BROKER_EPOCH = -1
"""The broker epoch of followers and leaders of old versions: it is not checked."""


class ReplicaEpoch(NamedTuple):
    """A replica, and the broker epoch that its leader has seen in its fetches.

    A broker gets a new epoch each time it starts.
    """

    broker_id: int
    broker_epoch: int = NO_BROKER_EPOCH
