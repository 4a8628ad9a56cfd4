"""`tierlog-spark jars`: the list for spark-submit's `--jars`, fetched if it is not here yet."""

import argparse
from typing import TYPE_CHECKING

from ...tiering.tools.terminal import Output
from .jars import jar_paths
from .known_jars import KINDS

if TYPE_CHECKING:
    from .arguments.job_arguments import Jobs

_EPILOG = """\
spark-submit starts the JVM before the code of the job, so the jars belong on its command line:

    spark-submit --jars "$(tierlog-spark jars iceberg)" job.py
"""


def add_parser(jobs: "Jobs") -> argparse.ArgumentParser:
    """Add the job to the command line."""
    parser = jobs.add_parser(
        "jars",
        help="print the jars for spark-submit --jars",
        description="Fetch the jars of these kinds from Maven Central, in the versions that match"
        " the installed PySpark, and print their paths with commas between them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kinds", nargs="+", choices=KINDS, metavar="kind", help=", ".join(KINDS))
    parser.set_defaults(run=run)
    return parser


def run(options: argparse.Namespace) -> int:
    """Print the list; returns the exit code. Raises KafkaError if a jar cannot be fetched."""
    Output(as_json=False).line(",".join(jar_paths(dict.fromkeys(options.kinds))))
    return 0
