"""docs/limits.md names every bound that clients share, and a test for each that there is."""

import re

import pytest

from tierlog.tests.house_rules import ROOT
from tierlog.tests.limits_page import (
    PAGE,
    Limit,
    bounds_of_the_server,
    limits,
    own_bounds,
    page,
    value_of,
)


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "`python -m tierlog.tests.limits_page` writes it anew"


def test_every_bound_of_the_server_is_named_once() -> None:
    """A new constant that is a maximum is a limit that clients share, or bounds one thing alone."""
    bounds = bounds_of_the_server()
    shared, own = {each.bound for each in limits()}, own_bounds()
    assert bounds <= shared | set(own), "add them to tests/limits.toml"
    assert set(own) <= bounds - shared
    assert len(own) == len(set(own))


@pytest.mark.parametrize("limit", limits(), ids=lambda each: each.bound)
def test_every_bound_has_a_value_and_a_test(limit: Limit) -> None:
    assert value_of(limit)
    path, _, name = limit.test.partition("::")
    text = (ROOT / path).read_text()
    assert name
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), limit.test
