"""A Spark session that many tests share, begun again when its JVM no longer answers.

A JVM may die. Also a test that is interrupted while it waits for an answer of the JVM breaks the
connection: the next question would get that answer, and each one after it the answer before.
"""

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Timer
from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

ANSWERS_WITHIN_S = 120.0
"""A JVM that does not answer in this time is killed."""
_QUESTIONS = 3

_context = cast("Any", SparkContext)
_sessions = cast("Any", SparkSession)


class WorkerSession:
    """The session; `begin` makes one."""

    def __init__(self, begin: Callable[[], SparkSession]) -> None:
        self._begin = begin
        self._session: SparkSession | None = None

    def session(self) -> SparkSession:
        """The session, which works."""
        if self._session is not None and not _is_open(self._session):
            self.stop()
        if self._session is None:
            self._session = self._begin()
        return self._session

    def stop(self) -> None:
        """Stop the session, and its JVM too if that does not answer. Idempotent."""
        session, self._session = self._session, None
        if session is not None and _answers():
            with _watched_jvm():
                session.stop()
        if not _answers():
            _discard_jvm()


def _is_open(session: SparkSession) -> bool:
    """Whether a session's JVM answers and has not stopped its context."""
    context = cast("Any", session.sparkContext)
    if context._jsc is None or not _answers():
        return False
    with _watched_jvm():
        return not context._jsc.sc().isStopped()


def _answers() -> bool:
    """Whether the JVM of this process gives the answers to what it is asked; True without one."""
    if _context._gateway is None:
        return True
    numbers = [random.randrange(1 << 31) for _ in range(_QUESTIONS)]
    try:
        with _watched_jvm():
            jvm = _context._gateway.jvm
            return all(jvm.java.lang.Long.parseLong(str(number)) == number for number in numbers)
    except Exception:
        # Answers to other questions are of any type, so this may fail in any way.
        return False


@contextmanager
def _watched_jvm() -> Generator[None]:
    """Kill the JVM if the block takes too long, which ends what waits for it."""
    timer = Timer(ANSWERS_WITHIN_S, _context._gateway.proc.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _discard_jvm() -> None:
    """Kill the JVM, and make PySpark forget it: it has no public way to begin another."""
    gateway, context = _context._gateway, _context._active_spark_context
    gateway.proc.kill()
    gateway.proc.wait()
    gateway.proc.stdin.close()
    gateway.shutdown()
    if context is not None:
        context._jsc = None
        context.stop()
    _context._gateway = _context._jvm = None
    _sessions._instantiatedSession = _sessions._activeSession = None
