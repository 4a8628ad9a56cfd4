"""docs/limits.md names every bound of the network, and a test for each that there is."""

import re

import pytest

from tierlog.tests.house_rules import ROOT
from tierlog.tests.limits_page import PAGE, Limit, constants, limits, own_bounds, page, value_of


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "`python -m tierlog.tests.limits_page` writes it anew"


def test_every_bound_of_the_network_is_named() -> None:
    network = (ROOT / "broker" / "network").glob("*.py")
    bounds = {
        f"{path.relative_to(ROOT).as_posix()}:{name}"
        for path in network
        for name in constants(path)
        if "MAX" in name.split("_")
    }
    named = {each.bound for each in limits()} | own_bounds()
    assert bounds <= named, "add them to tests/limits.toml"
    assert own_bounds() <= bounds


@pytest.mark.parametrize("limit", limits(), ids=lambda each: each.bound)
def test_every_bound_has_a_value_and_a_test(limit: Limit) -> None:
    assert value_of(limit.bound)
    path, _, name = limit.test.partition("::")
    text = (ROOT / path).read_text()
    assert name
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), limit.test
