#!/usr/bin/env python3
"""`tierlog-in-sync`: whether every replica of every partition is in sync, internal topics included.

While that is so, any one broker may be stopped: with three replicas and `min.insync.replicas=2`,
producers go on. Run it before and after each broker of a rolling upgrade:

    docker compose exec broker1 tierlog-in-sync --wait 300

Exit code 0 if all are in sync; 1 if some are not, or the broker does not answer, within the time.
"""

import argparse
import asyncio
import math
import sys
import time
from collections.abc import Mapping, Sequence

from tierlog.clients.admin import Admin
from tierlog.clients.errors import KafkaError
from tierlog.clients.network.metadata import TopicMetadata
from tierlog.docker.properties_file import NoPropertiesError, node_properties

_POLL_S = 1.0
_ASK_MS = 10_000
_NAMED_MAX = 5
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def own_address(properties: Mapping[str, str]) -> str | None:
    """Where this node's broker accepts clients, as `host:port`; None for a controller alone.

    That is the listener for the other brokers, or the first one that is not for controllers.
    """
    named = properties.get("advertised.listeners") or properties.get("listeners", "")
    controllers = properties.get("controller.listener.names", "").split(",")
    addresses: dict[str, str] = {}
    for listener in named.split(","):
        name, _, address = listener.strip().partition("://")
        host, _, port = address.rpartition(":")
        if name and name not in controllers:
            addresses[name] = f"{_LOOPBACK.get(host, host)}:{port}"
    first = next(iter(addresses), "")
    return addresses.get(properties.get("inter.broker.listener.name", first), addresses.get(first))


def out_of_sync(topics: Mapping[str, TopicMetadata]) -> list[str]:
    """The partitions that lack replicas in sync, each with the replicas that are missing."""
    lacking: list[str] = []
    for name, topic in sorted(topics.items()):
        for number, partition in sorted(topic.partitions.items()):
            missing = sorted(set(partition.replica_nodes) - set(partition.isr_nodes))
            if missing or partition.leader_id < 0:
                leader = "no leader" if partition.leader_id < 0 else "not in sync"
                brokers = ", ".join(map(str, missing)) or "all"
                lacking.append(f"{name}-{number}: {leader}, brokers {brokers}")
    return lacking


async def look(address: str) -> list[str]:
    """What keeps the cluster from losing a broker now; empty if nothing does."""
    try:
        async with Admin(address, timeout_ms=_ASK_MS) as admin:
            return out_of_sync(await admin.list_topics(include_internal=True))
    except (KafkaError, OSError, TimeoutError) as error:
        return [f"The broker at {address} does not answer: {error}"]


async def wait(address: str, seconds: float) -> list[str]:
    """Look until nothing is out of sync or the time is over; returns what still is."""
    deadline = time.monotonic() + seconds
    printed = -1
    while lacking := await look(address):
        if time.monotonic() >= deadline:
            break
        if len(lacking) != printed:
            printed = len(lacking)
            print(f"waiting for {printed} partition(s), such as {lacking[0]}", flush=True)
        await asyncio.sleep(_POLL_S)
    return lacking


def _seconds(text: str) -> float:
    """A finite time that is not negative. Raises ValueError."""
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise ValueError(text)
    return seconds


def main(arguments: Sequence[str]) -> int:
    """Look or wait, print, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="tierlog-in-sync", description="Are all replicas of all partitions in sync?"
    )
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="until then (default: look once)",
    )
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="a broker (default: the one of this container)"
    )
    parsed = parser.parse_args(arguments)
    address: str | None = parsed.bootstrap
    if address is None:
        try:
            address = own_address(node_properties())
        except NoPropertiesError as error:
            print(f"{error} To look at another one, give --bootstrap.")
            return 1
    if address is None:
        print("This node is a controller alone: give --bootstrap with the address of a broker.")
        return 1
    lacking = asyncio.run(wait(address, parsed.wait))
    for message in lacking[:_NAMED_MAX]:
        print(message)
    if len(lacking) > _NAMED_MAX:
        print(f"and {len(lacking) - _NAMED_MAX} more")
    if not lacking:
        print("All replicas of all partitions are in sync.")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
