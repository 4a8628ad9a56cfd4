"""The audit fits on its lines, and into its seconds."""

import asyncio
import logging

import pytest

from tierlog.security.audit import LINES_A_SECOND_MAX, LINES_OF_ONE_MAX, Audit, escape
from tierlog.tests.simulation.loop import SimulatedLoop, simulate


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("orders", "orders"),
        ("two words", "two words"),
        ("a\nb", "a\\nb"),
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("a\\nb", "a\\\\nb"),
        ("gr\u00fcn", "gr\u00fcn"),
        ("left\u202eright", "left\\u202eright"),
        ("x" * 5_000, "x" * 300),
    ],
)
def test_a_name_stays_on_its_line(name: str, text: str) -> None:
    assert escape(name) == text


def test_more_than_fits_into_a_second_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tests.audit")

    async def story(_: SimulatedLoop) -> None:
        audit = Audit(logger)
        for number in range(LINES_A_SECOND_MAX + 50):
            audit.write(False, f"denial {number}", f"User:{number}")
        await asyncio.sleep(1)
        audit.write(False, "a later one", "User:0")

    with caplog.at_level(logging.INFO, "tests.audit"):
        simulate(story)
    lines = [each.getMessage() for each in caplog.records if each.name == "tests.audit"]
    assert lines[LINES_A_SECOND_MAX - 1] == f"denial {LINES_A_SECOND_MAX - 1}"
    assert lines[LINES_A_SECOND_MAX:] == ["The audit left out 50 lines", "a later one"]


def test_a_flood_of_one_principal_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tests.audit")

    async def story(_: SimulatedLoop) -> None:
        audit = Audit(logger)
        for _denial in range(1_000):
            audit.write(False, "eve", "User:eve")
        audit.write(False, "bob", "User:bob")
        await asyncio.sleep(2)

    with caplog.at_level(logging.INFO, "tests.audit"):
        simulate(story)
    lines = [each.getMessage() for each in caplog.records if each.name == "tests.audit"]
    assert lines == [*["eve"] * LINES_OF_ONE_MAX, "bob", "The audit left out 950 lines"]


def test_permissions_are_for_those_who_look_closely() -> None:
    logger = logging.getLogger("tests.audit.levels")
    audit = Audit(logger)
    logger.setLevel(logging.INFO)
    assert (audit.wants(False), audit.wants(True)) == (True, False)
    logger.setLevel(logging.DEBUG)
    assert (audit.wants(False), audit.wants(True)) == (True, True)
    logger.setLevel(logging.ERROR)
    assert (audit.wants(False), audit.wants(True)) == (False, False)
