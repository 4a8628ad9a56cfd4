"""The leader's view of a follower (`Replica`, KIP-16).

The leader learns of a follower's log only through its fetches: a fetch at offset N means that the
follower holds everything below N. The times of its fetches show when it last held everything that
the leader held, which decides whether it is in sync.
"""

from ..metadata.replica_epoch import NO_BROKER_EPOCH

UNKNOWN_OFFSET = -1


class Replica:
    """The fetch progress of one follower, and when it was last caught up."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        # When the follower last held everything that the leader held at one of its fetches, in
        # milliseconds of the leader's clock; 0 before the first fetch.
        self.last_caught_up_ms = 0
        self.last_fetch_ms = 0
        self.last_fetch_leader_end_offset = 0
        # The broker epoch of the last fetch; None before the first one in this leader's term.
        self.broker_epoch: int | None = None

    def on_term(
        self, leader_end_offset: int, now_ms: int, *, is_new: bool, is_in_isr: bool
    ) -> None:
        """Begin a leader epoch (`Replica.resetReplicaState`).

        A member of the ISR counts as caught up now, for it needs time to find the leader. Only a
        leader that led the epoch before knows what the follower holds.
        """
        self.last_caught_up_ms = now_ms if is_in_isr else 0
        if is_new:
            self.log_start_offset = self.log_end_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms = 0
            self.broker_epoch = None
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_ms = now_ms if is_in_isr else 0

    def on_fetch(
        self,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> None:
        """Record a fetch that passed the epoch checks.

        A fetch at or past the leader's end offset shows that the follower is caught up now. One at
        or past the leader's end offset of the previous fetch shows that it was caught up then.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower holds everything, or did so within the allowed lag."""
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_ms <= max_lag_ms
        )
