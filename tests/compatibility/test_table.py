"""The committed table of clients and tools says what the tests run."""

from .table import TABLE, table


def test_the_committed_table_is_what_the_tests_run() -> None:
    assert TABLE.read_text() == table(), "run: python -m tierlog.tests.compatibility.table"
