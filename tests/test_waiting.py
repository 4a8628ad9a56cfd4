"""Waiting ends with the condition, or at the deadline with words."""

import pytest

from tierlog.tests.waiting import wait_until


def test_a_condition_that_holds_is_not_waited_for() -> None:
    wait_until(lambda: True, timeout_s=0, describe="never used")


def test_a_condition_that_comes_true_ends_the_wait() -> None:
    answers = iter([False, False, True])
    wait_until(lambda: next(answers), timeout_s=60, describe="three looks")


def test_the_deadline_tells_how_things_stand() -> None:
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        return False

    with pytest.raises(AssertionError, match="looks"):
        wait_until(look, timeout_s=0.01, describe=lambda: f"{len(looks)} looks")
