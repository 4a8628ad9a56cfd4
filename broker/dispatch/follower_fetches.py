"""Whether a large Fetch is a follower's, seen without decoding it: it waits in another queue.

A follower names each partition that has new records in its next request. With hundreds of them the
request is large, and must not wait for the turns of clients even to be decoded: `acks=all` waits
for it.
"""

from struct import Struct

from ...clients.protocol.api import ApiKey, ListenerKind
from ...security.access import CLUSTER_ACTION, access_of
from ..request.context import BrokerContext, RequestContext
from ..request.fetch_session import NO_SESSION

_FIRST_WITH_SESSIONS = 7
_FIRST_WITH_REPLICA_STATE = 15
_ID = Struct(">i")
_BEFORE_SESSION_ID = 13
"""The wait, the limits and the isolation level; before version 15 a replica id precedes them."""
_ONLY_REPLICA_STATE = b"\x01\x01\x0d"
"""The last field of a follower's request: one tagged field, its number, and its size of 13 bytes,
which are the replica id, the broker epoch and an empty set of tagged fields."""
_REPLICA_STATE_BYTES = 13
_END_OF_FOLLOWERS = len(_ONLY_REPLICA_STATE) + _REPLICA_STATE_BYTES


def is_of_follower(
    broker: BrokerContext, context: RequestContext, frame: memoryview, body: int
) -> bool:
    """Whether it is the Fetch of a follower that may be one; `body` is where the header ends."""
    version = context.api_version
    if (
        context.api_key != ApiKey.FETCH
        or context.listener_kind is ListenerKind.CONTROLLER
        or version < _FIRST_WITH_SESSIONS
        or len(frame) < body + _ID.size + _BEFORE_SESSION_ID + _ID.size
    ):
        return False
    has_state = version >= _FIRST_WITH_REPLICA_STATE
    begin = body + _BEFORE_SESSION_ID + (0 if has_state else _ID.size)
    (session_id,) = _ID.unpack_from(frame, begin)
    if session_id != NO_SESSION:
        return broker.fetch_sessions.is_of_follower(session_id)
    if not has_state:
        (replica_id,) = _ID.unpack_from(frame, body)
    elif bytes(frame[-_END_OF_FOLLOWERS:-_REPLICA_STATE_BYTES]) == _ONLY_REPLICA_STATE:
        (replica_id,) = _ID.unpack_from(frame, len(frame) - _REPLICA_STATE_BYTES)
    else:
        return False
    access = access_of(broker, context)
    return replica_id >= 0 and (
        access is None or access.allows_cluster(CLUSTER_ACTION, audited=False)
    )
