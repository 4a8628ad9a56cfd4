"""The options of `tierlog-bench torture`, and their help; it requires nothing of the extra."""

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

DESCRIPTION = """\
Attack a cluster of three or five brokers with real clients and real faults, and judge.

Producers of four libraries, copiers in transactions and processes whose history is checked
work while nodes are killed, paused and cut off, disks fail, clocks jump, the remote store
breaks and files are damaged. At the end everything is read back: nothing acknowledged may be
lost, doubled or out of order, and nothing aborted may have been read.
"""

EXAMPLES = """\
examples:
  tierlog-bench torture --minutes 2 --profile process,network    a first look
  tierlog-bench torture --minutes 30                             every fault has its turns
  tierlog-bench torture --minutes 10 --target kafka              the same against Apache Kafka
  tierlog-bench torture --list                                   every fault, and what it needs

exit codes: 0 nothing is wrong; 1 something was lost, doubled, reordered or read although it
was aborted, or the cluster did not recover; 2 the command cannot run, and says why
"""

PROFILES = ("process", "network", "disk", "clock", "store", "damage", "all")
_MINUTES_MAX = 7 * 24 * 60.0
_SEED_MAX = 1 << 32
_CLIENTS = ("Java", "librdkafka", "franz-go", "aiokafka")


def add_arguments(parser: ArgumentParser) -> None:
    """Describe the command and its options."""
    parser.description = DESCRIPTION
    parser.epilog = EXAMPLES
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.add_argument(
        "--minutes",
        metavar="N",
        type=_minutes,
        default=5.0,
        help="how long faults are done; start, recovery and judging come on top (default: 5)",
    )
    parser.add_argument(
        "--profile",
        dest="profiles",
        metavar="P[,P]",
        type=_profiles,
        default=("all",),
        help=f"which faults: {', '.join(PROFILES)} (default: all)",
    )
    parser.add_argument(
        "--target",
        choices=("tierlog", "kafka"),
        default="tierlog",
        help="what is attacked (default: tierlog); kafka needs Java 17, and Maven once",
    )
    parser.add_argument(
        "--brokers", type=int, choices=(3, 5), default=3, help="how many nodes (default: 3)"
    )
    parser.add_argument(
        "--clients",
        metavar="C[,C]",
        type=_clients,
        default=_CLIENTS,
        help=f"whose producers: {', '.join(_CLIENTS)} (default: all)",
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=_seed,
        default=None,
        help="draws the same faults in the same order again (default: another one each time)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="folder for the page and the figures. Default: bench-results/torture-<date and time>",
    )
    parser.add_argument(
        "--scratch",
        metavar="DIR",
        type=Path,
        help="where the brokers keep their data: on a disk with gigabytes free. Default: $TMPDIR, "
        "or /tmp",
    )
    parser.add_argument(
        "--list", action="store_true", help="list the faults, and what each needs, and end"
    )


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= _MINUTES_MAX:
        raise ArgumentTypeError(f"{text!r} is not a number of minutes up to {_MINUTES_MAX:g}.")
    return minutes


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= _SEED_MAX:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 to {_SEED_MAX - 1}.")
    return int(text)


def _names(text: str, allowed: Sequence[str], what: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in allowed:
            raise ArgumentTypeError(f"There is no {what} {name!r}; there are {', '.join(allowed)}.")
    return names


def _profiles(text: str) -> tuple[str, ...]:
    return _names(text, PROFILES, "profile")


def _clients(text: str) -> tuple[str, ...]:
    return _names(text, _CLIENTS, "client")
