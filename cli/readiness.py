"""Notifies the parent process that clients can connect, and that this one is about to stop.

- Lines on stdout given with `--announce`: the image of Kafka prints lines that other
  programs wait for, and the image of tierlog states them.
- `READY=1` and `STOPPING=1`, each in a datagram to the socket that `$NOTIFY_SOCKET` names, if any:
  the protocol of `sd_notify(3)`, with which systemd knows that a service of `Type=notify` is up. A
  name that begins with `@` is in the abstract namespace of Linux.
"""

import logging
import os
import socket
from collections.abc import Mapping, Sequence

_log = logging.getLogger(__name__)

NOTIFY_SOCKET = "NOTIFY_SOCKET"
READY = b"READY=1"
STOPPING = b"STOPPING=1"


def announce_ready(lines: Sequence[str]) -> None:
    """Print the lines, and notify the service manager. Call it after the line of the broker."""
    for line in lines:
        print(line, flush=True)
    notify(READY)


def notify(state: bytes, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state to the service manager, if there is one. A failure is logged, no more."""
    name = environment.get(NOTIFY_SOCKET, "")
    if not name:
        return
    address = "\0" + name[1:] if name.startswith("@") else name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.setblocking(False)
            manager.sendto(state, address)
    except (OSError, ValueError) as error:
        _log.warning("The service manager at %s was not notified: %s", name, error)
