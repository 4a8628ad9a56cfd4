"""What breaks the session that all tests of a worker share ends with the module that broke it."""

from collections.abc import Callable
from typing import Any, NoReturn, cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tierlog.tests.pipeline.spark.worker_session import WorkerSession

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

context = cast("Any", SparkContext)
kept: list[object] = []
"""Connections that a traceback keeps from being closed."""


class Interrupted(BaseException):
    """What ends a test at its time limit."""


def kill_jvm(session: SparkSession) -> None:
    context._gateway.proc.kill()
    context._gateway.proc.wait()


def interrupt_an_answer(session: SparkSession) -> None:
    """As pytest-timeout does in the middle of a query, and pytest keeps the traceback."""
    connection = context._gateway._gateway_client.get_thread_connection()
    stream = connection.stream

    class Interrupting:
        def readline(self) -> NoReturn:
            connection.stream = stream
            raise Interrupted

    connection.stream = Interrupting()
    with pytest.raises(Interrupted):
        session.range(7).count()
    kept.append(connection)


def stop_context(session: SparkSession) -> None:
    cast("Any", session.sparkContext)._jsc.stop()


@pytest.mark.parametrize("harm", [kill_jvm, interrupt_an_answer, stop_context])
def test_a_session_that_is_broken_is_begun_again(
    worker_session: WorkerSession, harm: Callable[[SparkSession], None]
) -> None:
    broken = worker_session.session()
    assert broken.range(5).count() == 5
    assert worker_session.session() is broken
    harm(broken)
    session = worker_session.session()
    assert session is not broken
    assert session.range(5).count() == 5
    assert worker_session.session() is session
