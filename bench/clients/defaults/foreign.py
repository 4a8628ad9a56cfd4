"""A client in another language with its default settings.

Run as `python -m tierlog.bench.clients.defaults.foreign NAME produce|consume …`, where NAME is one
of `programs.PROGRAMS`. The program replaces this process and prints one JSON object.
"""

import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from ..load import parse_order
from .programs import program_command


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    name, *stated = sys.argv[1:] if arguments is None else arguments
    order = parse_order("tierlog.bench.clients.defaults.foreign", __doc__, stated)
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
