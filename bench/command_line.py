"""The command line of `tierlog-bench`: its arguments and their help."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from .harness.targets.named import NAMES
from .scenario import Scale
from .sizing.size_command import (
    DESCRIPTION as SIZE_DESCRIPTION,
    EXAMPLES as SIZE_EXAMPLES,
    add_size_arguments,
)
from .torture.command_line import add_arguments


class WrongOptionError(Exception):
    """An option is invalid; the message is one sentence for the user."""


_DESCRIPTION = """\
Measure Kafka-compatible brokers side by side, with a remote tier and without one.

Brokers are started by the harness (tierlog, and Apache Kafka, which it fetches), take
turns within one run, and are measured with the same clients. The result is a folder with
every figure, the raw latency histograms and a report.
"""

_EXAMPLES = """\
examples:
  tierlog-bench run --scale smoke                   does everything work here? (a minute or two)
  tierlog-bench run                                 all scenarios, tierlog beside Kafka (15 min)
  tierlog-bench run throughput --target tierlog     one scenario, one broker
  tierlog-bench run throughput --repeats 7          medians of seven runs
  tierlog-bench run defaults --only 'consume.*100 B'  the cases that match, of one scenario
  tierlog-bench run latency --target tierlog --target broker.example:9092
  tierlog-bench run kip405_catch_up --tier s3://bucket/bench --tier-option key=...
  tierlog-bench report bench-results/2026-11-22T04-31-07
  tierlog-bench compare before/ after/
  tierlog-bench size --brokers 10 --partitions 1000 --mb-per-s 50    no run: a model
  tierlog-bench torture --minutes 5                 kill, cut and damage a cluster, and judge
"""

_REPEATS_MAX = 1_000
_SCALES = "smoke: a quick check; small: about 20 minutes; full: about two hours"


def default_targets(scale: Scale) -> tuple[str, ...]:
    """The targets measured by default; a smoke run requires no Java."""
    return ("tierlog",) if scale is Scale.SMOKE else ("tierlog", "kafka")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tierlog-bench",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_run(commands.add_parser("run", help="measure, and write a report"))
    report = commands.add_parser("report", help="rewrite the report of a results folder")
    report.add_argument(
        "directory", metavar="DIR", type=Path, help="a results folder that `run` wrote"
    )
    report.add_argument(
        "--prices",
        metavar="FILE",
        type=Path,
        help="TOML file with an object store's prices (docs/benchmarks.md)",
    )
    compare = commands.add_parser("compare", help="compare two results folders, figure by figure")
    compare.add_argument("before", metavar="A", type=Path, help="results folder before a change")
    compare.add_argument("after", metavar="B", type=Path, help="results folder after it")
    add_arguments(commands.add_parser("torture", help="attack a cluster with faults, and judge"))
    listed = commands.add_parser("list", help="the scenarios, and how long each takes")
    _add_scale(listed)
    add_size_arguments(
        commands.add_parser(
            "size",
            help="what each broker of a planned cluster needs, from a model",
            description=SIZE_DESCRIPTION,
            epilog=SIZE_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    return parser


def _add_scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scale",
        type=Scale,
        choices=list(Scale),
        default=Scale.SMALL,
        help=f"{_SCALES} (default: small)",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    named = "; ".join(f"{name}: {what}" for name, what in NAMES.items())
    parser.add_argument(
        "scenarios",
        metavar="SCENARIO",
        nargs="*",
        help="the scenarios to run. Default: all but those that run only when named"
        " (`tierlog-bench list` shows them)",
    )
    parser.add_argument(
        "--target",
        dest="targets",
        metavar="TARGET",
        action="append",
        help=f"a broker to measure; may be given several times. {named}. "
        "Default: tierlog and kafka; at smoke scale tierlog alone",
    )
    parser.add_argument(
        "--tier",
        metavar="URL",
        help="remote tier of tierlog, any fsspec URL such as s3://bucket/prefix; everything "
        "written there is removed at the end. Default: a folder beside the broker's data",
    )
    parser.add_argument(
        "--tier-option",
        dest="tier_options",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of that file system, such as endpoint_url=http://127.0.0.1:9000",
    )
    _add_scale(parser)
    parser.add_argument(
        "--repeats",
        metavar="N",
        type=_counted_runs,
        help="the number of counted runs of each case, whose median is reported; more runs reduce "
        "the effect of chance. Default: as the scenario plans for the scale",
    )
    parser.add_argument(
        "--only",
        metavar="REGEX",
        type=_pattern,
        help="run only the cases whose name matches this regular expression somewhere. Names of "
        "cases are in every report; a tiered case has the name of the untiered one",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="folder for the results. Default: bench-results/<date and time>",
    )
    parser.add_argument(
        "--scratch",
        metavar="DIR",
        type=Path,
        help="where the brokers keep their data during the run: on a disk with gigabytes free. "
        "Default: $TMPDIR, or /tmp",
    )


def _counted_runs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _REPEATS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_REPEATS_MAX}.")
    return int(text)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        message = f"{text!r} is not a regular expression: {error}."
        raise argparse.ArgumentTypeError(message) from error


def parse_options(pairs: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE pairs. Raises WrongOptionError for a malformed one."""
    options: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise WrongOptionError(f"--tier-option {pair!r} is not NAME=VALUE.")
        options[name] = value
    return options
