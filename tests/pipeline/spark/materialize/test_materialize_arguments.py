"""Materialize: what its arguments may be."""

import pytest

from tierlog.pipeline.spark.command_line import parser

STATED = ("materialize", "--tier", "/tier", "--topic", "orders", "--format", "parquet")


def every_ms(text: str) -> object:
    return parser().parse_args([*STATED, "--table", "/lake/{topic}", "--every", text]).every


def test_the_time_between_rounds_has_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert [every_ms("5m"), every_ms("30s")] == [300_000, 30_000]
    # As milliseconds, which Spark's options would take, it would be a job without rest.
    with pytest.raises(SystemExit):
        every_ms("5")
    assert "--every: '5' is not a time such as 5m or 30s" in capsys.readouterr().err
