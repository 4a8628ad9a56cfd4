"""Counts a cache's hits and misses since the broker's start, for its metrics.

A look-up is one of three: a hit finds its entry; a joined look-up finds the entry already being
loaded, because it was prefetched or another reader needs it, and waits for the rest of that load; a
miss starts the load and waits for all of it.
"""


class CacheCounts:
    """The three counters, which only grow."""

    __slots__ = ("hits", "joined", "misses")

    def __init__(self) -> None:
        self.hits = 0
        self.joined = 0
        self.misses = 0

    def waits(self, is_under_way: bool) -> None:
        """Count a look-up whose entry is not in the cache."""
        if is_under_way:
            self.joined += 1
        else:
            self.misses += 1
