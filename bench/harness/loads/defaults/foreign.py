"""A client in another language with its default settings.

Run as `python -m tierlog.bench.harness.loads.defaults.foreign NAME produce|consume …`, where NAME
is one of `programs.PROGRAMS`. The program replaces this process and prints one JSON object.
"""

import os
import sys
import time
from typing import NoReturn

from ..load import parse_order
from .programs import program_command


def main() -> NoReturn:
    name, *stated = sys.argv[1:]
    order = parse_order(__doc__, stated)
    load = order.load
    command = [
        *program_command(name),
        order.direction,
        order.bootstrap,
        order.topic,
        f"defaults-{time.time_ns()}",
        *(str(each) for each in (load.records, load.record_bytes, load.partitions)),
    ]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
