#!/usr/bin/env python3
"""The entry point of the image: environment variables become a properties file, and tierlog starts.

The variables are those of Apache Kafka's image, and mean the same (`variables.py`). Arguments
`NAME=VALUE` are further variables.

    docker run -e KAFKA_NODE_ID=1 -e CLUSTER_ID=... tierlog

Exit code 1 and one message if the start is refused; otherwise this becomes `tierlog serve`.
"""

import os
import sys
from collections.abc import Sequence

from tierlog.docker.start import become_tierlog, configure, format_new, run_or_refuse
from tierlog.docker.variables import property_name


def main(arguments: Sequence[str]) -> int:
    """Become `tierlog serve`; returns the exit code if that is refused."""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not (name and equals):
            print(f"tierlog: {argument} is not of the form NAME=VALUE.", file=sys.stderr)
            return 1
        os.environ[name] = value
    return run_or_refuse(_start)


def _start() -> None:
    configure(os.environ, property_name)
    format_new(os.environ)
    become_tierlog(os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
