#!/usr/bin/env python3
"""`tierlog-confluent`: what `configure`, `ensure` and `launch` of `/etc/confluent/docker` do.

`configure` writes the properties file from the variables, by the rule of Confluent's images.
`ensure` formats new directories if CLUSTER_ID is set: Testcontainers adds a command that formats
them, with a user, to the end of `configure`. `launch` becomes `tierlog serve`, and formats what is
new if nobody has called `ensure`.

Exit code 1 and one message if that is refused, 2 for another argument.
"""

import os
import sys
from collections.abc import Sequence

from tierlog.docker.start import become_tierlog, configure, format_new, run_or_refuse
from tierlog.docker.variables import property_name_of_confluent


def main(arguments: Sequence[str]) -> int:
    """Run one of the steps; returns the exit code."""
    match arguments:
        case ["configure"]:
            return run_or_refuse(lambda: configure(os.environ, property_name_of_confluent))
        case ["ensure"]:
            return run_or_refuse(lambda: format_new(os.environ))
        case ["launch"]:
            return run_or_refuse(_launch)
        case _:
            print("usage: tierlog-confluent configure|ensure|launch\n\n" + (__doc__ or ""))
            return 2


def _launch() -> None:
    format_new(os.environ)
    become_tierlog(os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
