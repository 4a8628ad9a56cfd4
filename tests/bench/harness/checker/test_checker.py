"""Every anomaly of a history is noticed under its own name, and a history without any is not."""

from collections.abc import Callable

import pytest

from tierlog.bench.harness.checker.anomalies import LEGAL, Anomaly
from tierlog.bench.harness.checker.checker import judge
from tierlog.bench.harness.checker.history import (
    Act,
    Event,
    Outcome,
    Phase,
    Read,
    decode_event,
    transactions,
)

from .written_histories import OTHER, PLACE, Written


def duplicate() -> Written:
    return Written().send(1, 10, 0).poll(2, (0, 10), (1, 10))


def inconsistent_offsets_of_a_sender_and_a_reader() -> Written:
    return Written().send(1, 10, 0).send(2, 11).poll(3, (0, 11)).poll(4, (1, 10))


def inconsistent_offsets_of_two_senders() -> Written:
    """One of them aborts, but both records were on every replica."""
    written = Written().send(1, 10, 0, transaction=1).abort(1, 1)
    return written.send(2, 11, 0).poll(3, (0, 11))


def inconsistent_offsets_of_two_readers() -> Written:
    written = Written().send(1, 10).send(1, 11)
    return written.poll(2, (0, 10)).poll(2, (1, 11)).poll(3, (0, 11))


def lost_write() -> Written:
    return Written().send(1, 10, 0).send(1, 11, 1).poll(2, (1, 11))


def lost_write_of_half_a_transaction() -> Written:
    """The client never knew that it was committed, but a reader has seen the other half."""
    written = Written().send(1, 10, 0, transaction=1).send(1, 11, 1, transaction=1)
    return written.commit(1, 1, Phase.INFO).crash(1).poll(2, (1, 11))


def unseen() -> Written:
    return Written().send(1, 10, 0).send(1, 11, 1).poll(2, (0, 10))


def aborted_read() -> Written:
    return Written().send(1, 10, 0, transaction=1).poll(2, (0, 10)).abort(1, 1)


def aborted_read_of_a_process_that_crashed_before_it_committed() -> Written:
    return Written().send(1, 10, 0, transaction=1).crash(1).poll(2, (0, 10))


def read_of_what_nobody_sent() -> Written:
    return Written().poll(2, (0, 10))


def precommitted_read() -> Written:
    written = Written().send(1, 10, 0, transaction=1).poll(1, (0, 10), transaction=1)
    return written.commit(1, 1)


def g0() -> Written:
    """Two transactions send to two partitions, and are in another order in each."""
    written = Written()
    written.send(1, 10, 0, 1).send(2, 20, 1, 2).send(2, 21, 0, 2, OTHER).send(1, 11, 1, 1, OTHER)
    written.commit(1, 1).commit(2, 2)
    return written.poll(3, (0, 10), (1, 20)).poll(3, (0, 21), (1, 11), partition=OTHER)


def g1c() -> Written:
    """Each of two transactions reads what the other one sends, which none may see before."""
    written = Written().send(1, 10, 0, 1).send(2, 20, 0, 2, OTHER)
    written.poll(1, (0, 20), transaction=1, partition=OTHER).poll(2, (0, 10), transaction=2)
    return written.commit(1, 1).commit(2, 2)


def g1c_with_writes() -> Written:
    """A transaction reads from another, which comes after it in a third partition."""
    written = Written().send(1, 10, 0, 1).send(2, 20, 1, 2).send(2, 21, 0, 2, OTHER)
    written.commit(2, 2).poll(1, (0, 21), transaction=1, partition=OTHER).commit(1, 1)
    return written.poll(3, (0, 10), (1, 20))


def g1c_realtime() -> Written:
    """A value is read before its transaction begins."""
    return Written().poll(2, (0, 10)).send(1, 10, 0)


def g1c_realtime_over_two() -> Written:
    """By way of two others: what is read depends on what comes after it."""
    written = Written().poll(2, (0, 10)).send(3, 30, 0, partition=OTHER)
    written.poll(1, (0, 30), partition=OTHER)
    return written.send(1, 10, 0)


def poll_skip() -> Written:
    written = Written().send(1, 10, 0).send(1, 11, 1).send(1, 12, 2)
    return written.poll(2, (0, 10)).poll(2, (2, 12)).poll(3, (0, 10), (1, 11), (2, 12))


def nonmonotonic_poll() -> Written:
    written = Written().send(1, 10, 0).send(1, 11, 1)
    return written.poll(2, (0, 10), (1, 11)).poll(2, (1, 11))


def nonmonotonic_send() -> Written:
    return Written().send(1, 10, 1).send(1, 11, 0).poll(2, (0, 11), (1, 10))


def nonmonotonic_send_after_an_aborted_one() -> Written:
    written = Written().send(1, 10, 1, transaction=1).abort(1, 1)
    return written.send(1, 11, 0).poll(2, (0, 11))


def int_poll_skip() -> Written:
    written = Written().send(1, 10, 0).send(1, 11, 1).send(1, 12, 2)
    return written.poll(2, (0, 10), (2, 12)).poll(3, (0, 10), (1, 11), (2, 12))


def int_nonmonotonic_poll() -> Written:
    return Written().send(1, 10, 0).send(1, 11, 1).poll(2, (1, 11), (0, 10))


def int_send_skip() -> Written:
    written = Written().send(1, 10, 0, transaction=1).send(2, 20, 1)
    written.send(1, 11, 2, transaction=1).commit(1, 1)
    return written.poll(3, (0, 10), (1, 20), (2, 11))


def int_nonmonotonic_send() -> Written:
    written = Written().send(1, 10, 1, transaction=1).send(1, 11, 0, transaction=1)
    return written.commit(1, 1).poll(3, (0, 11), (1, 10))


PLANTED: list[tuple[Callable[[], Written], set[Anomaly]]] = [
    (duplicate, {Anomaly.DUPLICATE}),
    (
        inconsistent_offsets_of_a_sender_and_a_reader,
        {Anomaly.INCONSISTENT_OFFSETS, Anomaly.DUPLICATE},
    ),
    (inconsistent_offsets_of_two_senders, {Anomaly.INCONSISTENT_OFFSETS}),
    (
        inconsistent_offsets_of_two_readers,
        {Anomaly.INCONSISTENT_OFFSETS, Anomaly.DUPLICATE},
    ),
    (lost_write, {Anomaly.LOST_WRITE, Anomaly.UNSEEN}),
    (lost_write_of_half_a_transaction, {Anomaly.LOST_WRITE, Anomaly.UNSEEN}),
    (unseen, {Anomaly.UNSEEN}),
    (aborted_read, {Anomaly.G1A}),
    (aborted_read_of_a_process_that_crashed_before_it_committed, {Anomaly.G1A}),
    (read_of_what_nobody_sent, {Anomaly.G1A}),
    (precommitted_read, {Anomaly.PRECOMMITTED_READ}),
    (g0, {Anomaly.G0}),
    (g1c, {Anomaly.G1C}),
    (g1c_with_writes, {Anomaly.G1C_WITH_WRITES}),
    (g1c_realtime, {Anomaly.G1C_REALTIME}),
    (g1c_realtime_over_two, {Anomaly.G1C_REALTIME}),
    (poll_skip, {Anomaly.POLL_SKIP}),
    (nonmonotonic_poll, {Anomaly.NONMONOTONIC_POLL}),
    (nonmonotonic_send, {Anomaly.NONMONOTONIC_SEND}),
    (nonmonotonic_send_after_an_aborted_one, {Anomaly.NONMONOTONIC_SEND}),
    (int_poll_skip, {Anomaly.INT_POLL_SKIP}),
    (int_nonmonotonic_poll, {Anomaly.INT_NONMONOTONIC_POLL}),
    (int_send_skip, {Anomaly.INT_SEND_SKIP, Anomaly.G0}),
    (int_nonmonotonic_send, {Anomaly.INT_NONMONOTONIC_SEND}),
]


@pytest.mark.parametrize(
    ("planted", "expected"), PLANTED, ids=[each.__name__ for each, _ in PLANTED]
)
def test_a_planted_anomaly_is_noticed(
    planted: Callable[[], Written], expected: set[Anomaly]
) -> None:
    judged = judge(planted().transactions)
    assert set(judged.counts) == expected, judged.cases
    assert {case.anomaly for case in judged.illegal} == expected - LEGAL


def test_every_anomaly_is_planted() -> None:
    assert {each for _, expected in PLANTED for each in expected} == set(Anomaly)


def clean() -> Written:
    """Transactions side by side, an abort, a crash and readers: as Kafka has it."""
    written = Written().send(1, 10, 0, transaction=1).send(1, 11, 1, transaction=1)
    written.commit(1, 1)  # the marker is at offset 2
    written.send(1, 12, 3, transaction=2).send(2, 20, 0, 1, OTHER).abort(1, 2)
    written.poll(2, (0, 10), (1, 11), transaction=1).commit(2, 1)
    written.send(3, 30, 5).crash(3).send(1, 13, 6, transaction=3).commit(1, 3)
    written.poll(4, (0, 10), (1, 11), (5, 30)).poll(4, (6, 13))
    return written.poll(4, (0, 20), partition=OTHER)


def test_a_clean_history_has_no_anomaly() -> None:
    assert judge(clean().transactions).cases == []


def test_an_aborted_transaction_leaves_the_consumer_where_it_was() -> None:
    written = Written().send(1, 10, 0).send(1, 11, 1).poll(2, (0, 10))
    written.poll(2, (1, 11), transaction=1).abort(2, 1)
    again = written.poll(2, (1, 11), transaction=2).commit(2, 2)
    assert judge(again.transactions).cases == []


def test_a_transaction_of_unknown_outcome_leaves_it_anywhere() -> None:
    written = Written().send(1, 10, 0).send(1, 11, 1).send(1, 12, 2)
    written.poll(2, (0, 10)).poll(2, (1, 11), transaction=1).commit(2, 1, Phase.INFO).crash(2)
    for next_reads in (((1, 11), (2, 12)), ((2, 12),)):
        again = Written()
        again.events = [*written.events]
        again.passes(100).poll(2, *next_reads)
        assert judge(again.transactions).cases == []


@pytest.mark.parametrize("transaction", [0, 3])
def test_after_an_assignment_a_consumer_begins_anew(transaction: int) -> None:
    written = Written().send(1, 10, 0).send(1, 11, 1).send(1, 12, 2).send(1, 20, 0, 0, OTHER)
    written.poll(2, (0, 10), (1, 11), (2, 12)).poll(2, (0, 20), partition=OTHER)
    written.assign(2, OTHER, transaction=transaction)
    written.poll(2, (0, 10), transaction=transaction)
    if transaction:
        written.commit(2, transaction)
    assert judge(written.transactions).cases == []
    written.poll(2, (0, 20), partition=OTHER)
    assert set(judge(written.transactions).counts) == {Anomaly.NONMONOTONIC_POLL}


def test_what_a_process_has_open_when_it_crashes_was_aborted_unless_it_was_committing() -> None:
    written = Written().send(1, 10, 0, transaction=1).crash(1)
    written.send(2, 20, 1, transaction=1).commit(2, 1, Phase.INFO).crash(2)
    written.send(3, 30, phase=Phase.INFO).send(4, 40, phase=Phase.FAIL)
    written.send(5, 50, 2, transaction=1).commit(5, 1, Phase.FAIL).abort(5, 1)
    outcomes = {each.process: each.outcome for each in written.transactions if each.process != 1}
    assert written.transactions[0].outcome is Outcome.ABORTED
    assert outcomes == {
        2: Outcome.COMMITTED,  # what follows a crash: an assignment of nothing
        3: Outcome.UNKNOWN,
        4: Outcome.ABORTED,
        5: Outcome.ABORTED,
    }
    assert next(each.outcome for each in written.transactions if each.process == 2) is (
        Outcome.UNKNOWN
    )


def test_an_answer_after_the_crash_of_its_process_changes_nothing() -> None:
    written = Written().send(1, 10, transaction=1, phase=Phase.INFO).crash(1)
    before = written.transactions
    late = Event(99.0, 1, Act.SEND, Phase.OK, 1, PLACE, 10, 0)
    assert transactions([*written.events, late]) == before


def test_the_lag_counts_from_the_moment_when_a_later_record_was_certainly_there() -> None:
    written = Written().assign(2, PLACE).send(1, 10, 0)  # acknowledged at 2.0
    written.passes(5).poll(2)  # begins at 7.5
    assert judge(written.transactions).worst_realtime_lag_s == 5.5
    written.poll(2, (0, 10)).passes(50).poll(2)
    assert judge(written.transactions).worst_realtime_lag_s == 5.5  # none is behind


def test_an_event_is_one_line_of_json() -> None:
    event = Event(1.5, 3, Act.POLL, Phase.OK, 4, reads=(Read(PLACE, 0, 10), Read(OTHER, 1, 20)))
    assert "\n" not in event.encoded()
    assert decode_event(event.encoded()) == event
    assert transactions([]) == []
