"""What a library of Testcontainers does with an image of Kafka: its interface, word for word.

A library starts a container whose command waits for a script, copies the script into it once it
knows the published port, and waits for a line of the log. Each library names its own image, and so
the entry points of that image.

In the script, `{host}` is where clients reach the container, `{9092}` the port there that leads to
port 9092 of the container, and `{own}` the container's name in its own network.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

ALIAS = "broker"
"""The container's alias in a network."""
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


class Login(NamedTuple):
    """The user whom a library makes, and the listener to which that user logs in."""

    port: int
    user: str
    password: str
    mechanism: str
    store_password: str
    """Of both stores."""

    @property
    def stated(self) -> tuple[str, ...]:
        """What the library's user states."""
        port = str(self.port)
        return (self.mechanism, self.password, self.user, self.store_password, port)


@dataclass(frozen=True, slots=True)
class Library:
    """One way in which a library starts a broker."""

    name: str
    source: str
    environment: dict[str, str]
    command: tuple[str, ...]
    script_path: str
    script: str
    awaited: re.Pattern[str] | None
    """The line; None where the library waits for the ports alone."""
    module: str = ""
    """The language of the published module; empty where none is read."""
    port: int = 9092
    """The port of the container that is published for clients."""
    cluster_id: str | None = CLUSTER_ID
    other_port: int | None = None
    """Another port that must accept connections before the library goes on."""
    login: Login | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """What the library's user states."""
        return self.login.stated if self.login is not None else ()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of the container that are published for clients."""
        return (self.port,) if self.login is None else (self.port, self.login.port)


def script_of(library: Library, host: str, published: Mapping[int, int], own: str) -> str:
    """The script that the library copies into the container.

    `published` are the ports of the host by those of the container.
    """
    ports = {f"{{{ours}}}": str(theirs) for ours, theirs in published.items()}
    places = {"{host}": host, "{own}": own, **ports}
    return re.sub(r"\{(?:host|own|\d+)\}", lambda match: places[match[0]], library.script)
