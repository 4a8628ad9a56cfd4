"""Notices at a broker's stop that no controller can let it go: a majority of them is gone.

When a whole cluster is stopped, the last nodes have nobody who could commit their leaving. Requests
to the controllers that have ended are refused at once, which a network that is cut, or a controller
that is only slow, does not do: those are waited for. Nor does a lost connection alone say much: the
broker connects to the controllers once more before it goes. A broker that stops by itself writes
its logs as cleanly as one that was let go; only its leaderships stay with it.
"""

import asyncio
from collections.abc import Awaitable, Callable

from ...replication.raft.raft_actions import Destination
from ...replication.raft.voter_set import VoterSet

GONE_FOR_S = 1.0
"""So long a majority must have been unreachable without a break: a controller may be restarting."""
_LOOK_S = 0.1

FailedSince = Callable[[tuple[str, int], float], bool]
"""Whether the last request to an address was refused, and not before that time of the loop."""


Refuses = Callable[[Destination], Awaitable[bool]]
"""Whether a node gives no connection now."""


async def until_majority_is_gone(
    own_id: int, voters: Callable[[], VoterSet], failed_since: FailedSince, refuses: Refuses
) -> None:
    """Return once a majority of the voters has refused this node since the call, and does so."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    gone_at: float | None = None
    while True:
        await asyncio.sleep(_LOOK_S)
        if not is_majority_gone(own_id, voters(), lambda at: failed_since(at, began)):
            gone_at = None
        elif gone_at is None:
            gone_at = loop.time()
        elif loop.time() - gone_at >= GONE_FOR_S:
            if await _is_majority_refusing(own_id, voters(), refuses):
                return
            gone_at = None


async def _is_majority_refusing(own_id: int, voters: VoterSet, refuses: Refuses) -> bool:
    others = [
        Destination(voter.key.id, at)
        for voter in voters
        if voter.key.id != own_id
        for at in voter.endpoints.values()
    ]
    refused: set[tuple[str, int]] = set()
    for destination in others:
        if await refuses(destination):
            refused.add(destination.address)
    return is_majority_gone(own_id, voters, refused.__contains__)


def is_majority_gone(
    own_id: int, voters: VoterSet, has_failed: Callable[[tuple[str, int]], bool]
) -> bool:
    """Whether so many other voters have failed that the rest, with this node, cannot decide."""
    left = sum(
        voter.key.id == own_id or not any(map(has_failed, voter.endpoints.values()))
        for voter in voters
    )
    return bool(len(voters)) and left < voters.majority
