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
    assert 0.5 * first.rate < second.rate < first.rate
    assert sum(_first_waits(second, now + 60)) > 0


def test_a_consumer_that_is_started_again_and_again_is_paced_each_time() -> None:
    memory = PacingMemory()
    now = _fill_queues(memory.pacing_of(_CLIENT, 0.0), 0.0, 2)
    for _ in range(5):
        pacing = memory.pacing_of(_CLIENT, now)
        waits = _first_waits(pacing, now)
        assert sum(waits) > 0
        now += 1


def test_other_clients_and_later_ones_begin_unpaced() -> None:
    memory = PacingMemory()
    now = _fill_queues(memory.pacing_of(_CLIENT, 0.0), 0.0, 2)
    for client, later in ((("127.0.0.1", "rdkafka", 17), 0.0), (_CLIENT, 601.0)):
        pacing = memory.pacing_of(client, now + later)
        assert sum(_first_waits(pacing, now + later)) == 0


def test_a_slower_application_of_the_same_client_is_slowed_down_to_and_not_given_up() -> None:
    memory = PacingMemory()
    first = memory.pacing_of(_CLIENT, 0.0)
    now = _fill_queues(first, 0.0, 2)
    second = memory.pacing_of(_CLIENT, now)
    _fill_queues(second, now, 2)
    assert second.state is PacingState.PACED
    assert second.rate < first.rate


def test_only_so_many_clients_are_remembered() -> None:
    memory = PacingMemory()
    now = _fill_queues(memory.pacing_of(_CLIENT, 0.0), 0.0, 2)
    for number in range(256):
        memory.pacing_of(number, now)
    assert sum(_first_waits(memory.pacing_of(_CLIENT, now), now)) == 0
