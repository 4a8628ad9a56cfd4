"""The failures of a job that are the user's to read, and the one sentence for each.

A failure of anything else is a mistake of ours, and keeps its traceback.
"""

import re
from typing import Any, cast

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ...clients.errors import KafkaError
from ...tiering.remote_storage import RemoteStorageError
from ..reading.scan_options import ScanError
from .tables.export_state import ExportError
from .topic_writer import TopicWriterError
from .typed.registered_schema import SchemaError

_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: |$)", re.MULTILINE)
"""What a statement of ours raises (`upsert.py`), inside what Spark says of it."""

FAILURES = (
    KafkaError,
    ScanError,
    ExportError,
    TopicWriterError,
    RemoteStorageError,
    SchemaError,
    PySparkException,
    Py4JError,
)
"""What a job may end with; all else is a mistake in the code."""

_CAUSES = 5
_CAUSE_LENGTH = 400
"""Characters of a cause's message: S3A's has the object, the status and the ids of the request."""


def failure_sentence(error: BaseException) -> str:
    """What one of `FAILURES` says, in one sentence."""
    match error:
        case KafkaError():
            return error.message
        case PySparkException():
            return _with_causes(_first_words(str(error)), cast("Any", error), "_origin")
        case Py4JJavaError():
            # PySpark raises this if it does not convert the error, such as when no session starts.
            said = str(cast("Any", error).java_exception.getMessage())
            return _with_causes(_first_words(said), cast("Any", error), "java_exception")
        case Py4JError():
            return f"Spark has ended: {error}"
        case _:
            return f"{error}".rstrip(".") + "."


def has_spark_ended(error: BaseException) -> bool:
    """Whether the session is gone, so that nothing else can run in it."""
    return isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)


def _with_causes(sentence: str, error: object, attribute: str) -> str:
    """The sentence and what is behind it: "Failed to refresh the table" alone helps no one.

    A library's own wrapping repeats the message of its cause as a rule, and then says enough.
    """
    try:
        java = getattr(error, attribute, None)
        for _ in range(_CAUSES):
            java = None if java is None else java.getCause()
            if java is None:
                break
            said = str(java.getMessage() or "").strip().partition("\n")[0][:_CAUSE_LENGTH]
            if said and said not in sentence and not said.startswith("Traceback"):
                name = java.getClass().getSimpleName()
                sentence = f"{sentence.rstrip('.')}: {name}: {said}"
    except Py4JError:
        return sentence  # the JVM has ended meanwhile
    return sentence


def _first_words(said: str) -> str:
    """The message to print: our own code's message if there is one, or Spark's first line."""
    raised = _RAISED.search(said)
    if raised is not None:
        return raised[1]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [line for line in lines if "Error: " in line and line.startswith("tierlog.")]
    if ours:
        return ours[-1].partition("Error: ")[2].strip()
    return lines[0] if lines else "Spark has ended without a message."
