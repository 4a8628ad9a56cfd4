"""The command line of `tierlog-spark`: Spark jobs over topics and their tier.

Each job is a module with its own parser. All run on this machine's cores unless `--master` names a
cluster, and accept Spark's own settings with `--conf`.
"""

import argparse
import logging
import re
from collections.abc import Sequence

from ...tiering.tools.terminal import CANNOT_RUN, cannot_run
from . import jar_list
from .audit import audit
from .failures import FAILURES, failure_sentence
from .jobs import backfill, export
from .materialize import materialize
from .profile import profile

_JOBS = (audit, export, materialize, backfill, profile)

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
    except FAILURES as error:
        return cannot_run(failure_sentence(error))
    except KeyboardInterrupt:
        return CANNOT_RUN
