"""The command line of `tierlog-spark`: Spark jobs over topics and their tier.

Each job is a module with its own parser. All run on this machine's cores unless `--master` names a
cluster, and accept Spark's own settings with `--conf`.
"""

import argparse
import logging
import re
from collections.abc import Sequence
from typing import Any, cast

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ...clients.errors import KafkaError
from ...tiering.remote_storage import RemoteStorageError
from ...tiering.tools.terminal import CANNOT_RUN, cannot_run
from ..reading.scan_options import ScanError
from . import jar_list
from .audit import audit
from .jobs import backfill, export
from .profile import profile
from .tables.export_state import ExportError
from .topic_writer import TopicWriterError

_JOBS = (audit, export, backfill, profile)

_MASTERS = re.compile(r"local(-cluster)?(\[.+\])?|spark://.+:[0-9]+|yarn|k8s://.+")


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    whole = argparse.ArgumentParser(
        prog="tierlog-spark", description="Jobs on Spark over topics and their remote tier."
    )
    commands = whole.add_subparsers(metavar="job", required=True)
    jar_list.add_parser(commands).set_defaults(conf=[])
    for job in _JOBS:
        each = job.add_parser(commands)
        each.add_argument(
            "--master",
            metavar="URL",
            type=spark_master,
            help="where Spark runs (default: local[*], this machine)",
        )
        each.add_argument(
            "--conf",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="a Spark setting; may be given several times",
        )
    return whole


def spark_master(text: str) -> str:
    """A Spark master URL, for argparse's `type`."""
    if _MASTERS.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a Spark master: use local[*], spark://HOST:PORT, yarn or k8s://URL"
        )
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    options = parser().parse_args(arguments)
    settings = dict(each.partition("=")[::2] for each in options.conf)
    if not all(settings.values()):
        return cannot_run("--conf takes NAME=VALUE.")
    # A failure is printed as one message; Spark's own output would be forty lines.
    options.conf = {"spark.log.level": "FATAL", **settings}
    try:
        return int(options.run(options))
    except KafkaError as error:
        return cannot_run(error.message)
    except (ScanError, ExportError, TopicWriterError, RemoteStorageError) as error:
        return cannot_run(f"{error}".rstrip(".") + ".")
    except PySparkException as error:
        return cannot_run(_first_words(str(error)))
    except Py4JJavaError as error:
        # PySpark raises this if it does not convert the error, such as when no session can start.
        return cannot_run(_first_words(str(cast("Any", error).java_exception.getMessage())))
    except Py4JError as error:
        return cannot_run(f"Spark has ended: {error}")
    except KeyboardInterrupt:
        return CANNOT_RUN


def _first_words(said: str) -> str:
    """The message to print: our own code's message if there is one, or Spark's first line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [line for line in lines if "Error: " in line and line.startswith("tierlog.")]
    if ours:
        return ours[-1].partition("Error: ")[2].strip()
    return lines[0] if lines else "Spark has ended without a message."
