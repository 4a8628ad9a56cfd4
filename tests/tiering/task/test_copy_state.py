"""What copying is at decides what may be deleted: every state meets every event."""

from itertools import product

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tiering.task.copy_state import CopyEvent, CopyProgress, CopyState

S, E = CopyState, CopyEvent
MOVES = {
    (S.UNKNOWN, E.LOCATED): S.IDLE,
    (S.IDLE, E.BEGUN): S.COPYING,
    (S.COPYING, E.FAILED): S.IDLE,
    (S.COPYING, E.STORED): S.UNCONFIRMED,
    (S.COPYING, E.REFUSED_FOR_GOOD): S.CANCELLED,
    (S.UNCONFIRMED, E.CONFIRMED): S.UNKNOWN,
}
ID = Uuid(bytes(range(16)))
FINISHED = RemoteLogSegmentMetadataUpdate(
    segment_id=RemoteLogSegmentId(PARTITION, ID),
    event_timestamp_ms=0,
    state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    broker_id=1,
    custom_metadata=None,
)


@pytest.mark.parametrize(("state", "event"), list(product(CopyState, CopyEvent)))
def test_every_event_in_every_state(state: CopyState, event: CopyEvent) -> None:
    progress = CopyProgress()
    progress.state = state
    if state is S.ENDED or event is E.DEPOSED:
        progress.apply(event)
        assert progress.state is S.ENDED
    elif (state, event) in MOVES:
        progress.apply(event)
        assert progress.state is MOVES[state, event]
    else:
        with pytest.raises(AssertionError, match=f"{event.name} cannot happen in {state.name}"):
            progress.apply(event)


def copying() -> CopyProgress:
    progress = CopyProgress()
    progress.apply(E.LOCATED)
    progress.apply(E.BEGUN)
    return progress


def test_nothing_expires_while_a_stored_segment_is_not_confirmed() -> None:
    progress = copying()
    assert progress.is_settled
    progress.store(FINISHED)
    assert (progress.is_settled, progress.unconfirmed_id) == (False, ID)
    progress.confirm()
    assert (progress.is_settled, progress.unconfirmed_id) == (True, None)
    assert progress.state is S.UNKNOWN


def test_a_term_that_ends_keeps_the_stored_segment_from_others() -> None:
    progress = copying()
    progress.store(FINISHED)
    progress.apply(E.DEPOSED)
    assert (progress.is_settled, progress.unconfirmed_id) == (False, ID)
    progress.confirm()
    assert progress.state is S.ENDED


def test_what_is_not_stored_is_not_confirmed() -> None:
    with pytest.raises(AssertionError):
        copying().confirm()
