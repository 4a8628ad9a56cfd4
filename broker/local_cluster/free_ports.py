"""Free ports of 127.0.0.1, chosen below those that the system gives to outgoing connections.

A port of that range could belong to somebody's connection when its node starts again.
"""

import asyncio
from collections.abc import Collection
from random import Random

from ...storage.files import Files

_GIVEN_OUT = "/proc/sys/net/ipv4/ip_local_port_range"
_LOWEST = 10_000
"""Above the ports that other servers commonly use."""
_HIGHEST = 32_767
_TRIES_MAX = 500


class NoPortError(Exception):
    """No free port was met."""


async def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", port)
    except OSError:
        return False
    server.close()
    await server.wait_closed()
    return True


def port_range(files: Files) -> tuple[int, int]:
    """The ports to choose from, both ends included."""
    try:
        first_given_out = int(files.read(_GIVEN_OUT).split()[0])
    except (OSError, ValueError, IndexError):
        first_given_out = _HIGHEST + 1
    highest = first_given_out - 1
    return (_LOWEST, highest) if highest > _LOWEST + _TRIES_MAX else (_LOWEST, _HIGHEST)


async def free_port(random: Random, ports: tuple[int, int], but: Collection[int]) -> int:
    """A free port that is none of `but`. Raises NoPortError."""
    for _ in range(_TRIES_MAX):
        port = random.randint(*ports)
        if port not in but and await is_free(port):
            return port
    raise NoPortError(f"No free port was met from {ports[0]} to {ports[1]} of 127.0.0.1.")
