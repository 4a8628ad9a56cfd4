#!/usr/bin/env python3
"""`tierlog-confluent`: what `configure` and `launch` of `/etc/confluent/docker` do.

`configure` writes the properties file from the variables, by the rule of Confluent's images, and
formats new directories if CLUSTER_ID is set. `launch` becomes `tierlog serve`.

Exit code 1 and one sentence if that is refused, 2 for another argument.
"""

import os
import sys
from collections.abc import Sequence

from tierlog.docker.start import become_tierlog, prepare, run_or_refuse
from tierlog.docker.variables import property_name_of_confluent


def main(arguments: Sequence[str]) -> int:
    """Run one of the two steps; returns the exit code."""
    match arguments:
        case ["configure"]:
            return run_or_refuse(lambda: prepare(os.environ, property_name_of_confluent))
        case ["launch"]:
            return run_or_refuse(lambda: become_tierlog(os.environ))
        case _:
            print("usage: tierlog-confluent configure|launch\n\n" + (__doc__ or ""))
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
