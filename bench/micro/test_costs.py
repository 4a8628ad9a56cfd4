"""The guard: no hot call executes or allocates more than in the committed baseline.

A change that is meant to cost more, or that makes something cheaper, includes a new baseline
(`make baseline`): its diff shows the reviewer what changed.
"""

from tierlog.bench.micro.costs import (
    PAGE,
    Baseline,
    Cost,
    budget_table,
    complaints,
    load_baseline,
    measure,
    measure_all,
    page_with,
    python_version,
)

WAS = Cost(instructions=1_000, peak_bytes=10_000)


def sentences(now: Cost, python: str = python_version()) -> list[str]:
    return complaints({"call": now}, Baseline(python, {"call": WAS}))


def test_the_hot_calls_cost_what_the_baseline_says() -> None:
    measured = measure_all()
    baseline = load_baseline()
    assert measured.keys() == baseline.costs.keys()
    assert not complaints(measured, baseline)


def test_an_unchanged_call_is_not_reported() -> None:
    assert not sentences(WAS)
    assert not sentences(Cost(1_050, 10_500))


def test_one_more_loop_is_reported() -> None:
    assert sentences(Cost(1_200, 10_000)) == ["call: 1200 instructions, 1000 before"]


def test_one_more_copy_of_the_bytes_is_reported() -> None:
    assert sentences(Cost(1_000, 26_384)) == ["call: 26384 bytes at the peak, 10000 before"]


def test_what_became_cheaper_is_to_be_kept() -> None:
    (sentence,) = sentences(Cost(500, 10_000))
    assert sentence == "call: only 500 instructions, 1000 before: keep it in the baseline"


def test_another_python_has_other_bytecode() -> None:
    assert not sentences(Cost(1_300, 13_000), python="3.1")
    assert not sentences(Cost(500, 5_000), python="3.1")
    assert len(sentences(Cost(1_700, 10_000), python="3.1")) == 1


def test_instructions_and_bytes_are_counted() -> None:
    def loop(rounds: int) -> int:
        return sum(number for number in range(rounds))

    short, long = measure(lambda: loop(10)), measure(lambda: loop(1_000))
    assert 50 < long.instructions / short.instructions < 150
    assert measure(lambda: bytes(1 << 20)).peak_bytes >= 1 << 20


def test_the_page_shows_the_baseline() -> None:
    page = PAGE.read_text()
    assert page == page_with(budget_table(load_baseline().costs), page)
