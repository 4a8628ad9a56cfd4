"""Each of Kafka's cases has a test of ours that is there, or a reason (`kafka_cases.toml`)."""

import ast
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tierlog.tests.house_rules import ROOT

TESTS = ROOT / "tests"
TABLE: dict[str, Any] = tomllib.loads((Path(__file__).parent / "kafka_cases.toml").read_text())
REASONS: dict[str, str] = TABLE.pop("reasons")
ROWS = [(name, row) for name, rows in TABLE.items() for row in rows]


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


@pytest.mark.parametrize(("kafka_test", "row"), ROWS)
def test_a_case_has_tests_or_a_reason(kafka_test: str, row: dict[str, Any]) -> None:
    assert kafka_test.endswith("Test")
    assert row["names"]
    assert row.keys() in ({"names", "tests"}, {"names", "because"})
    assert row.get("because") in (None, *REASONS)
    for named in row.get("tests", ()):
        file, _, test = named.partition("::")
        assert test in names_in(file), named


def test_no_case_and_no_reason_is_there_for_nothing() -> None:
    counted = Counter((kafka_test, name) for kafka_test, row in ROWS for name in row["names"])
    assert [case for case, count in counted.items() if count > 1] == []
    assert {row["because"] for _, row in ROWS if "because" in row} == set(REASONS)
