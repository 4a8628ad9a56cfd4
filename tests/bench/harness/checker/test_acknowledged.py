"""What producers were answered is held against what was read, partition by partition."""

from tierlog.bench.harness.checker.acknowledged import (
    Acknowledged,
    Answer,
    ReadBack,
    Wrong,
    parse_answers,
    shortened,
    violations,
    wrong_records,
)

LINES = ["a 0 0 0 1000000000", "a 0 1 1 2500000000", "f 0 2 timed out", "a 1 0 -1 3000000000"]
READ = {0: [ReadBack(0, 0), ReadBack(1, 1)], 1: [ReadBack(0, 0)]}


def test_lines_of_a_producer_are_its_answers() -> None:
    acknowledged = parse_answers(LINES)
    assert acknowledged.answers == {
        0: {0: Answer(0, 1.0), 1: Answer(1, 2.5)},
        1: {0: Answer(-1, 3.0)},
    }
    assert (acknowledged.records, acknowledged.failures) == (3, ["f 0 2 timed out"])


def test_a_record_that_failed_may_be_there_once_or_not() -> None:
    acknowledged = parse_answers(LINES)
    assert wrong_records(acknowledged, READ) == []
    assert wrong_records(acknowledged, {**READ, 0: [*READ[0], ReadBack(2, 2)]}) == []


def said_of(*read: tuple[int, int]) -> str:
    records = {**READ, 0: [ReadBack(*each) for each in read]}
    return " ".join(wrong_records(parse_answers(LINES), records))


def test_each_violation_is_a_sentence() -> None:
    assert "Record 1 of partition 0 was acknowledged at offset 1 and is lost" in said_of((0, 0))
    assert "Record 1 of partition 0 is there twice" in said_of((0, 0), (1, 1), (2, 1))
    assert "Record 0 of partition 0 is out of order" in said_of((0, 1), (1, 0))
    assert "acknowledged at offset 1 and is at offset 5" in said_of((0, 0), (5, 1))
    assert "is lost" in " ".join(wrong_records(parse_answers(LINES), {}))


def test_a_batch_that_was_appended_twice_is_doubled_and_not_reordered() -> None:
    twice = {0: [ReadBack(*each) for each in ((0, 0), (1, 1), (2, 0), (3, 1), (4, 2))]}
    seen = violations(parse_answers(["a 0 1 3 1000", "a 0 2 4 1000"]), twice)
    assert [violation.wrong for violation in seen] == [Wrong.DOUBLED, Wrong.DOUBLED]
    assert "Record 1 of partition 0 is there twice: at offset 1 and at offset 3." in seen[1].text


def test_many_violations_are_shortened() -> None:
    assert shortened(["a.", "b."]) == "a. b."
    assert shortened(["a.", "b.", "c.", "d.", "e."]) == "a. b. c. (and 2 more)"


def test_a_gap_counts_for_every_fault_that_it_goes_on_after() -> None:
    answers = {number: Answer(number, at) for number, at in enumerate([0.0, 1.0, 6.0, 7.0, 9.0])}
    acknowledged = Acknowledged({0: answers, 1: {0: Answer(0, 0.0), 1: Answer(1, 0.5)}})
    # The first falls into the gap of five seconds, and the others into that of two.
    assert acknowledged.longest_gaps_s([2.0, 5.5, 8.0]) == [4.0, 2.0, 1.0]
    assert acknowledged.longest_gaps_s([0.5]) == [5.0]
    assert acknowledged.longest_gaps_s([20.0]) == [0.0]
    assert acknowledged.longest_gaps_s([]) == []
