"""The offsets of a log keep their order, whatever moves them."""

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tierlog.storage.log.bounds import LogBounds


def bounds(log_start: int, local_log_start: int, high_watermark: int, log_end: int) -> LogBounds:
    made = LogBounds()
    made.advance_log_end(log_end)
    made.open_at(log_start, local_log_start)
    made.move_high_watermark(high_watermark)
    return made


def offsets(of: LogBounds) -> tuple[int, int, int, int]:
    return (of.log_start, of.local_log_start, of.high_watermark, of.log_end)


OUT_OF_ORDER: list[Callable[[LogBounds], object]] = [
    lambda log: log.advance_log_end(39),
    lambda log: log.advance_log_start(31),
    lambda log: log.advance_log_start(9),
    lambda log: log.advance_local_log_start(31),
    lambda log: log.truncate_to(41),
    lambda log: log.truncate_to(-1),
    lambda log: log.begin_at(50, 51),
    lambda log: log.begin_at(5, -1),
    lambda log: log.open_at(41, 0),
    lambda log: log.open_at(0, 41),
    lambda log: log.adopt(bounds(10, 20, 30, 41)),
]


@pytest.mark.parametrize("move", OUT_OF_ORDER)
def test_an_offset_that_is_moved_out_of_order_is_caught(
    move: Callable[[LogBounds], object],
) -> None:
    with pytest.raises(AssertionError):
        move(bounds(10, 20, 30, 40))


@pytest.mark.parametrize(("asked", "answer"), [(5, 20), (20, 20), (33, 33), (40, 40), (99, 40)])
def test_the_high_watermark_stays_within_the_local_log(asked: int, answer: int) -> None:
    log = bounds(10, 20, 30, 40)
    assert log.move_high_watermark(asked) == answer
    assert offsets(log) == (10, 20, answer, 40)


@pytest.mark.parametrize(
    ("first_unstable", "answer"), [(None, 30), (30, 30), (35, 30), (25, 25), (15, 15), (5, 10)]
)
def test_the_last_stable_offset_lies_between_log_start_and_high_watermark(
    first_unstable: int | None, answer: int
) -> None:
    assert bounds(10, 20, 30, 40).last_stable_offset(first_unstable) == answer


def test_a_truncation_brings_all_that_lies_above_it_down() -> None:
    log = bounds(10, 20, 30, 40)
    log.update_highest_remote(25)
    log.truncate_to(15)
    assert (offsets(log), log.highest_remote) == ((10, 15, 15, 15), 14)


def test_a_log_that_begins_anew_keeps_what_is_in_the_tier_below_it() -> None:
    log = bounds(10, 20, 30, 40)
    log.begin_at(100, log.log_start)
    assert offsets(log) == (10, 100, 100, 100)


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["append", "watermark", "start", "local", "truncate", "begin"]),
        st.integers(0, 60),
    ),
    max_size=30,
)


@given(MOVES)
def test_no_sequence_of_moves_that_a_log_makes_breaks_the_order(
    moves: list[tuple[str, int]],
) -> None:
    log = LogBounds()
    for name, offset in moves:
        if name == "append":
            log.advance_log_end(log.log_end + offset)
        elif name == "watermark":
            log.move_high_watermark(offset)
        elif name == "start":
            log.advance_log_start(min(max(offset, log.log_start), log.high_watermark))
        elif name == "local":
            log.advance_local_log_start(min(offset, log.high_watermark))
        elif name == "truncate":
            log.truncate_to(min(offset, log.log_end))
        else:
            log.begin_at(offset, min(offset, log.log_start))
        assert sorted(offsets(log)) == list(offsets(log))
        assert log.log_start <= log.last_stable_offset(offset) <= log.high_watermark
