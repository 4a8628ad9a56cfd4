"""The timer wheel: never early, at most a tick late, one timer on the loop."""

from hypothesis import given, strategies as st

from tierlog.replication.purgatory.timer_wheel import EXPIRATIONS_PER_TURN, TimerEntry, TimerWheel
from tierlog.tests.replication.manual_loop import ManualLoop


class Noted(TimerEntry):
    """Remembers when it expired."""

    def __init__(self, loop: ManualLoop) -> None:
        super().__init__()
        self.loop = loop
        self.expired_at: list[float] = []

    def on_deadline(self) -> None:
        self.expired_at.append(self.loop.now)


@given(st.lists(st.floats(0, 5_000), max_size=30), st.integers(1, 20))
def test_an_entry_expires_once_not_before_its_deadline_and_at_most_a_tick_after(
    delays_ms: list[float], tick_ms: int
) -> None:
    loop = ManualLoop()
    wheel = TimerWheel(loop, tick_ms)
    entries = [(Noted(loop), delay_ms) for delay_ms in delays_ms]
    for entry, delay_ms in entries:
        wheel.add(entry, delay_ms)
    assert len(loop.pending) <= 1
    loop.advance(6_000)
    for entry, delay_ms in entries:
        assert len(entry.expired_at) == 1
        late_ms = entry.expired_at[0] * 1000 - delay_ms
        assert -1e-6 <= late_ms <= tick_ms + 1e-6
    assert len(wheel) == 0
    assert not loop.pending


@given(st.lists(st.tuples(st.integers(1, 3_000), st.booleans()), max_size=40))
def test_a_cancelled_entry_never_expires_and_leaves_the_others_alone(
    plan: list[tuple[int, bool]],
) -> None:
    loop = ManualLoop()
    wheel = TimerWheel(loop)
    entries = [(Noted(loop), delay, is_cancelled) for delay, is_cancelled in plan]
    for entry, delay, _ in entries:
        wheel.add(entry, delay)
    for entry, _, is_cancelled in entries:
        if is_cancelled:
            entry.cancel()
            entry.cancel()
            assert entry.bucket is None
    loop.advance(4_000)
    for entry, _, is_cancelled in entries:
        assert len(entry.expired_at) == (0 if is_cancelled else 1)


def test_an_earlier_deadline_moves_the_one_timer_forward() -> None:
    loop = ManualLoop()
    wheel = TimerWheel(loop)
    late, early = Noted(loop), Noted(loop)
    wheel.add(late, 1_000)
    wheel.add(early, 10)
    assert [timer.when for timer in loop.pending] == [0.01]
    loop.advance(20)
    assert early.expired_at == [0.01]
    assert [timer.when for timer in loop.pending] == [1.0]
    loop.advance(1_000)
    assert late.expired_at == [1.0]


def test_what_expires_may_schedule_again() -> None:
    loop = ManualLoop()
    wheel = TimerWheel(loop)

    class Repeating(TimerEntry):
        count = 0

        def on_deadline(self) -> None:
            Repeating.count += 1
            if Repeating.count < 5:
                wheel.add(self, 7)

    wheel.add(Repeating(), 7)
    loop.advance(1_000)
    assert Repeating.count == 5


def test_one_turn_of_the_loop_expires_a_bounded_number() -> None:
    loop = ManualLoop()
    wheel = TimerWheel(loop)
    entries = [Noted(loop) for _ in range(EXPIRATIONS_PER_TURN + 1)]
    for entry in entries:
        wheel.add(entry, 5)
    (timer,) = loop.pending
    loop.timers.clear()
    loop.now = timer.when
    timer.callback()
    assert sum(bool(entry.expired_at) for entry in entries) == EXPIRATIONS_PER_TURN
    loop.advance(0)
    assert all(len(entry.expired_at) == 1 for entry in entries)


def test_emptied_buckets_do_not_pile_up() -> None:
    loop = ManualLoop()
    wheel = TimerWheel(loop)
    for delay in range(1, 20_000):
        entry = Noted(loop)
        wheel.add(entry, delay)
        entry.cancel()
    kept = vars(wheel)["_ticks"]
    assert len(kept) <= 1_000


def test_closing_forgets_everything() -> None:
    loop = ManualLoop()
    wheel = TimerWheel(loop)
    entry = Noted(loop)
    wheel.add(entry, 5)
    wheel.close()
    assert not loop.pending
    assert entry.bucket is None
    loop.advance(100)
    assert entry.expired_at == []
