"""`python -m tierlog.bench`: tierlog and Apache Kafka measured side by side, in one run.

Needs Java 17 and Maven (Kafka comes from Maven Central, once), and confluent-kafka from PyPI.
"""

import argparse
import signal
import sys
from collections.abc import Sequence

from .kafka_peer import KafkaUnavailableError


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tierlog.bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="startup|throughput|tiering")
    startup = commands.add_parser("startup", help="CPU, time and memory to the first answer")
    startup.add_argument("--rounds", type=int, default=5, help="starts of each broker (default 5)")
    throughput = commands.add_parser("throughput", help="produce and consume with librdkafka")
    throughput.add_argument(
        "--megabytes", type=int, default=500, help="payload of one round (default 500)"
    )
    throughput.add_argument(
        "--rounds", type=int, default=3, help="counted rounds, after those to warm up (default 3)"
    )
    throughput.add_argument(
        "--warm-up", type=int, default=1, help="rounds before the counted ones (default 1)"
    )
    tiering = commands.add_parser("tiering", help="what copying to and reading from a tier costs")
    tiering.add_argument(
        "--megabytes", type=int, default=200, help="payload of one round (default 200)"
    )
    tiering.add_argument("--rounds", type=int, default=3, help="counted rounds (default 3)")
    tiering.add_argument("--warm-up", type=int, default=1, help="rounds before those (default 1)")
    tiering.add_argument(
        "--seconds", type=float, default=10, help="how long each steady load lasts (default 10)"
    )
    tiering.add_argument(
        "--records-per-second", type=int, default=15_000, help="its rate (default 15000)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    # Asked to stop, it still stops the brokers that it started.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        if options.command in (None, "startup"):
            from . import startup

            startup.run(rounds=getattr(options, "rounds", 5))
        if options.command in (None, "throughput"):
            from . import throughput

            throughput.run(
                megabytes=getattr(options, "megabytes", 500),
                rounds=getattr(options, "rounds", 3),
                warm_up=getattr(options, "warm_up", 1),
            )
        if options.command == "tiering":
            from . import tiering

            tiering.run(
                tiering.Scale(
                    megabytes=options.megabytes,
                    rounds=options.rounds,
                    warm_up=options.warm_up,
                    seconds=options.seconds,
                    records_per_second=options.records_per_second,
                )
            )
    except KafkaUnavailableError as error:
        print(f"tierlog.bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
