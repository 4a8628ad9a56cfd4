"""What has arrived on a connection: kept bytes, and what the budget is charged for them."""

import asyncio
import struct
from collections.abc import Callable

import pytest

from tierlog.broker.network.receive_budget import ReceiveBudget
from tierlog.broker.network.request_stream import (
    TRANSITIONS,
    RequestEvent,
    RequestState,
    RequestStream,
    may_go_ahead,
    put_back,
)
from tierlog.clients.protocol.connection import FrameBuffers

READING, QUEUED, STARVED, ENDED, ENDED_QUEUED, CLOSED = RequestState

LEADS_TO = {
    RequestEvent.YIELD: {READING: QUEUED, ENDED: ENDED_QUEUED},
    RequestEvent.TURN: {QUEUED: READING, ENDED_QUEUED: ENDED},
    RequestEvent.STARVE: {READING: STARVED, ENDED: STARVED},
    RequestEvent.ADMIT: {STARVED: READING},
    RequestEvent.END: {
        READING: ENDED,
        QUEUED: ENDED_QUEUED,
        **{state: state for state in (STARVED, ENDED, ENDED_QUEUED)},
    },
    RequestEvent.RESUME: {ENDED: READING},
    RequestEvent.LOSE: dict.fromkeys([*RequestState][:-1], CLOSED),
}

BUDGET_BYTES = 100_000


@pytest.mark.parametrize("event", RequestEvent)
@pytest.mark.parametrize("state", RequestState)
def test_the_states_move_as_drawn(state: RequestState, event: RequestEvent) -> None:
    assert TRANSITIONS.get((state, event)) is LEADS_TO[event].get(state)


class Peer:
    """A connection, as the budget knows it."""

    def __init__(self, budget: ReceiveBudget) -> None:
        self.requests = RequestStream(1 << 20, budget)
        self.closed_because: list[str] = []

    def feed(self, sent: bytes) -> None:
        assert not list(self.requests.frames.feed(memoryview(sent)))

    def account(self, *, is_ready: bool = True) -> bool:
        return self.requests.account(self, is_ready=is_ready)

    def admitted(self) -> None:
        self.requests.move(RequestEvent.ADMIT)
        self.requests.budget.promise(self)
        self.requests.charge_whole()

    def close_for_memory(self, reason: str) -> None:
        self.closed_because.append(reason)


def with_peer(story: Callable[[Peer, ReceiveBudget], None]) -> None:
    """Run a story in a loop, as the budget has timers."""

    async def run() -> None:
        budget = ReceiveBudget(BUDGET_BYTES, FrameBuffers())
        story(Peer(budget), budget)
        budget.stop()

    asyncio.run(run())


def test_kept_bytes_are_charged_until_the_peer_has_gone() -> None:
    def story(peer: Peer, budget: ReceiveBudget) -> None:
        peer.requests.keep(memoryview(b"first"))
        peer.requests.keep(memoryview(b" and more"))
        assert peer.account(is_ready=False)
        assert bytes(peer.requests.kept or b"") == b"first and more"
        assert budget.used == len(b"first and more")
        assert peer.requests.release(peer)
        assert budget.used == 0

    with_peer(story)


def test_a_partial_request_without_room_is_starved_until_it_is_admitted() -> None:
    def story(peer: Peer, budget: ReceiveBudget) -> None:
        other = Peer(budget)
        other.feed(struct.pack(">i", 100_000) + b"begun")
        budget.charge(BUDGET_BYTES // 2 + 1)
        assert other.account()
        assert other.requests.state is READING, "One can always be finished."
        peer.feed(struct.pack(">i", 90_000) + b"begun")
        assert peer.account()
        assert peer.requests.state is STARVED
        other.requests.release(other)
        budget.admit_waiting()
        assert peer.requests.state is READING
        assert peer.requests.charged_bytes == 90_000

    with_peer(story)


def test_more_kept_than_there_is_memory_for_closes_the_connection() -> None:
    def story(peer: Peer, budget: ReceiveBudget) -> None:
        peer.requests.keep(memoryview(bytes(BUDGET_BYTES + BUDGET_BYTES // 4)))
        assert peer.account(is_ready=False)
        peer.requests.keep(memoryview(b"one more"))
        assert not peer.account(is_ready=False)

    with_peer(story)


def test_a_request_is_put_back_as_it_came() -> None:
    kept = put_back(memoryview(b"\0\0one"), b"two")
    assert bytes(kept) == b"\0\0\0\x05\0\0onetwo"
    assert not kept.readonly
    assert may_go_ahead(kept[4:])
    assert not may_go_ahead(memoryview(b"\0\1"))
