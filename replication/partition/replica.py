"""A follower as its leader sees it (`Replica`, KIP-16).

The leader learns of a follower's log only through its fetches: a fetch at offset N says that the
follower holds everything below N. From the times of its fetches follows when it last held all
that the leader had, which decides whether it is in sync.
"""

UNKNOWN_OFFSET = -1


class Replica:
    """What one follower has fetched, and when it was last caught up."""

    __slots__ = (
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
        # When the follower last held everything that its leader held at some fetch, in
        # milliseconds of the leader's clock; 0 before its first fetch.
        self.last_caught_up_ms = 0
        self.last_fetch_ms = 0
        self.last_fetch_leader_end_offset = 0

    def on_fetch(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """Take note of a fetch that passed the epoch checks.

        One that reaches the leader's end catches up now; one that reaches what was the end at the
        fetch before had caught up then.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower holds all, or did so not longer ago than the lag allowed."""
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_ms <= max_lag_ms
        )
