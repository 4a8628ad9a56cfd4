"""The definition of a load, shared by the scenarios that request it and the clients that run it.

Values differ, so that a wrong, duplicate or misplaced record is detected: record `n` of partition
`p` has value `n + p` of an endless sequence that repeats after `VALUES`. The values consist of
words, which compress about as well as log lines.
"""

import json
import random
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .load_options import options_of, parsed

VALUES = 251
"""A prime, so that batches do not align with the sequence."""

_WORDS = 256
_SEED = 405


class LoadError(Exception):
    """A record was not acknowledged, not read, or read wrong; or a client's tool has failed."""


@dataclass(frozen=True, slots=True)
class Load:
    """Records to produce to or consume from one topic, and how a producer sends them.

    `batch_bytes` is the maximum size of a batch, `linger_ms` how long a producer waits to fill it.
    With `varied`, `record_bytes` is the mean size, and no two neighbours need have the same.
    With `idempotent` a producer numbers its batches; Java's does so with acks=all in any case.
    """

    records: int
    record_bytes: int = 1024
    partitions: int = 1
    batch_bytes: int = 16384
    linger_ms: int = 20
    codec: str = "none"
    acks: str = "all"
    idempotent: bool = False
    varied: bool = False

    @property
    def total_bytes(self) -> int:
        """The bytes of all values."""
        return self.records * self.record_bytes

    def records_in(self, partition: int) -> int:
        """The number of records for a partition."""
        return (self.records - partition + self.partitions - 1) // self.partitions

    def arguments(self) -> list[str]:
        """The load as options of a client's command line."""
        return options_of(self)


def values(record_bytes: int, *, varied: bool = False) -> list[bytes]:
    """The sequence of values, which is the same in every process.

    With `varied` their sizes are spread evenly between nothing and twice `record_bytes`.
    """
    chance = random.Random(_SEED)
    letters = b"abcdefghijklmnopqrstuvwxyz0123456789"
    words = [bytes(chance.choices(letters, k=chance.randint(3, 11))) for _ in range(_WORDS)]
    row: list[bytes] = []
    for number in range(VALUES):
        # Shuffled, as VALUES is a prime: neighbours differ by much.
        size = (
            2 * record_bytes * (100 * number % VALUES) // (VALUES - 1) if varied else record_bytes
        )
        text = b" ".join(chance.choices(words, k=size // 4 + 1))
        row.append(text[:size])
    return row


@dataclass(frozen=True, slots=True)
class Order:
    """The task of a client process."""

    direction: str
    bootstrap: str
    topic: str
    load: Load
    tls: str | None = None
    """HOST:PORT of the broker's listener with TLS, if the records go there."""
    authority: str | None = None
    """The PEM file of the authority that issued that listener's certificate."""
    count_requests: bool = False
    """Whether to add up the client's requests as well, which costs it some CPU."""

    @property
    def data_bootstrap(self) -> str:
        """Where the records go; questions about them go to `bootstrap`."""
        return self.tls or self.bootstrap


def parse_order(description: str | None, arguments: Sequence[str] | None = None) -> Order:
    """Read a client's command line: `produce|consume --bootstrap … --topic …` and a load."""
    parser = ArgumentParser(description=description)
    parser.add_argument("direction", choices=("produce", "consume"))
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of the broker")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--tls", help="HOST:PORT of the broker's listener with TLS")
    parser.add_argument("--authority", help="who issued its certificate: a PEM file")
    parser.add_argument("--count-requests", action="store_true")
    load, stated = parsed(parser, Load, arguments)
    counts = bool(stated.pop("count_requests"))
    return Order(**stated, load=load, count_requests=counts)


def client_main(
    description: str | None,
    produce: Callable[[Order], Mapping[str, float]],
    consume: Callable[[Order], Mapping[str, float]],
    arguments: Sequence[str] | None = None,
) -> None:
    """Do what the command line says, and print the figures as one JSON object."""
    order = parse_order(description, arguments)
    json.dump(produce(order) if order.direction == "produce" else consume(order), sys.stdout)
