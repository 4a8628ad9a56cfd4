"""A produce with acks=all that waits for its followers (`DelayedProduce`).

A partition is settled when the high watermark has passed its records (with the error
NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few replicas are then in sync), or when this broker no
longer leads it. A partition not settled by the timeout is answered REQUEST_TIMED_OUT: its records
may survive.

With one replica no request waits here: the high watermark has moved before the append returns.
"""

from dataclasses import dataclass

from ..partition.append_data import AppendEntry
from ..partition.partition import Partition
from .delayed_replication import DelayedReplication

DelayedProduce = DelayedReplication[AppendEntry]


@dataclass(slots=True)
class UnsettledAppend:
    """Records that are appended but not yet replicated, and their result."""

    partition: Partition
    required_offset: int
    result: AppendEntry

    def settle(self) -> bool:
        """Set the result's error code; return whether nothing is left to wait for."""
        code = self.partition.check_replicated(self.required_offset)
        if code is None:
            return False
        self.result.error = code
        return True
