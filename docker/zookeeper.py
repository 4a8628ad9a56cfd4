#!/usr/bin/env python3
"""`zookeeper-server-start FILE`: holds the port of a ZooKeeper that no one needs.

Testcontainers starts one before its broker, and the one for Node waits until both accept
connections. tierlog has its own controller. So this listens at the `clientPort` of the file and
closes each connection at once.

Exit code 1 and one message if the port cannot be had; otherwise it runs until it is stopped.
"""

import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from tierlog.clients.errors import KafkaError
from tierlog.clients.properties import parse_properties

_PORT = "2181"
_HOST = "0.0.0.0"


def main(arguments: Sequence[str]) -> int:
    """Listen; returns the exit code if that is refused."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: zookeeper-server-start FILE\n\n" + (__doc__ or ""))
        return 2
    try:
        properties = parse_properties(Path(arguments[0]).read_text("utf-8"))
        host = properties.get("clientPortAddress", _HOST)
        listener = socket.create_server((host, int(properties.get("clientPort", _PORT))))
    except (OSError, ValueError, OverflowError, KafkaError) as error:
        print(f"zookeeper-server-start: {arguments[0]}: {error}", file=sys.stderr)
        return 1
    while True:
        listener.accept()[0].close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
