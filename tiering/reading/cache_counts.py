"""How often a cache had what was wanted: what its metrics tell, since the broker's start.

A look-up is one of three. A hit finds what it wants. A joined one finds it on its way, because it
was fetched ahead or another reader wants it too, and waits for the rest of that way. A miss begins
the way and waits for all of it.
"""


class CacheCounts:
    """Three counts that only grow."""

    __slots__ = ("hits", "joined", "misses")

    def __init__(self) -> None:
        self.hits = 0
        self.joined = 0
        self.misses = 0

    def waits(self, is_under_way: bool) -> None:
        """Count a look-up that did not find what it wants."""
        if is_under_way:
            self.joined += 1
        else:
            self.misses += 1
