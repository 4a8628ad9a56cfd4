"""A consumer that is started again is paced from its first response on, as it was before."""

from tierlog.broker.dispatch.fetch_pacing import FetchPacing, PacingMemory, PacingState

_MIB = 1 << 20
_CLIENT = ("127.0.0.1", "rdkafka", 16)


def _fill_queues(pacing: FetchPacing, now: float, times: int) -> float:
    """A client with a queue of ten responses, which is full so often; returns the time."""
    for _ in range(times):
        for _ in range(10):
            pacing.requested(now)
            now += 0.003 + pacing.responded(now, now + 0.003, _MIB)
        now += 1.0
        pacing.requested(now)
    return now


def _first_waits(pacing: FetchPacing, now: float) -> list[float]:
    waits: list[float] = []
    for _ in range(10):
        pacing.requested(now)
        waits.append(pacing.responded(now, now + 0.003, _MIB))
        now += 0.003 + waits[-1]
    return waits


def test_a_new_connection_of_a_paced_client_is_paced_at_once() -> None:
    memory = PacingMemory()
    first = memory.pacing_of(_CLIENT, 0.0)
    now = _fill_queues(first, 0.0, 2)
    assert first.state is PacingState.PACED
    second = memory.pacing_of(_CLIENT, now + 60)
    assert second.rate == first.rate
    assert sum(_first_waits(second, now + 60)) > 0


def test_one_pause_is_not_enough_to_be_remembered() -> None:
    # The speed after it is a guess.
    memory = PacingMemory()
    now = _fill_queues(memory.pacing_of(_CLIENT, 0.0), 0.0, 1)
    assert sum(_first_waits(memory.pacing_of(_CLIENT, now), now)) == 0


def test_other_clients_and_later_ones_begin_unpaced() -> None:
    memory = PacingMemory()
    now = _fill_queues(memory.pacing_of(_CLIENT, 0.0), 0.0, 2)
    for client, later in ((("127.0.0.1", "rdkafka", 17), 0.0), (_CLIENT, 601.0)):
        pacing = memory.pacing_of(client, now + later)
        assert sum(_first_waits(pacing, now + later)) == 0


def test_a_client_that_rests_goes_on_resting() -> None:
    memory = PacingMemory()
    first = memory.pacing_of(_CLIENT, 0.0)
    now = 0.0
    while first.state is not PacingState.RESTING:
        # Its application works for a second after every ten responses, however they are spaced.
        now = _fill_queues(first, now, 1)
        assert now < 300
    second = memory.pacing_of(_CLIENT, now)
    now = _fill_queues(second, now, 3)
    assert second.state is PacingState.RESTING


def test_only_so_many_clients_are_remembered() -> None:
    memory = PacingMemory()
    now = _fill_queues(memory.pacing_of(_CLIENT, 0.0), 0.0, 2)
    for number in range(256):
        memory.pacing_of(number, now)
    assert sum(_first_waits(memory.pacing_of(_CLIENT, now), now)) == 0
