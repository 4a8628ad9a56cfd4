"""Notices at a broker's stop that no controller can let it go: a majority of them is gone.

When a whole cluster is stopped, the last nodes have nobody who could commit their leaving. Requests
to the controllers that have ended are refused at once, which a network that is cut, or a controller
that is only slow, does not do: those are waited for. A broker that stops by itself writes its logs
as cleanly as one that was let go; only its leaderships stay with it.
"""

import asyncio
from collections.abc import Callable

from ...replication.raft.voter_set import VoterSet

GONE_FOR_S = 1.0
"""So long a majority must have been unreachable without a break: a controller may be restarting."""
_LOOK_S = 0.1

FailedSince = Callable[[tuple[str, int], float], bool]
"""Whether the last request to an address was refused, and not before that time of the loop."""


async def until_majority_is_gone(
    own_id: int, voters: Callable[[], VoterSet], failed_since: FailedSince
) -> None:
    """Return once a majority of the voters has refused this node since the call."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    gone_at: float | None = None
    while gone_at is None or loop.time() - gone_at < GONE_FOR_S:
        await asyncio.sleep(_LOOK_S)
        if not is_majority_gone(own_id, voters(), lambda at: failed_since(at, began)):
            gone_at = None
        elif gone_at is None:
            gone_at = loop.time()


def is_majority_gone(
    own_id: int, voters: VoterSet, has_failed: Callable[[tuple[str, int]], bool]
) -> bool:
    """Whether so many other voters have failed that the rest, with this node, cannot decide."""
    left = sum(
        each.key.id == own_id or not any(map(has_failed, each.endpoints.values()))
        for each in voters
    )
    return bool(len(voters)) and left < voters.majority
