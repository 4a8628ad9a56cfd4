"""What a client program is told to do, and what it answers: a line of JSON each.

Programs in all languages read the same lines. A program works off its orders one after another,
each with new connections, and answers each with `values`, what a group has read, or with `error`,
what a user of this client sees.
"""

import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Literal, cast

from .sentences import comparable

_RUN_S = 200

What = Literal["work", "produce", "consume", "transact"]


@dataclass(frozen=True, slots=True)
class Order:
    """One thing to do, and as whom."""

    what: What
    address: str
    protocol: str
    mechanism: str = ""
    """Of SASL; empty without."""
    user: str = ""
    password: str = ""
    token: str = ""
    """A file with the token of OAUTHBEARER; empty without."""
    ca: str = ""
    """A file with the authority to trust; empty without TLS."""
    identity: str = ""
    """A file with the client's own key and certificate; empty without."""
    topic: str = ""
    group: str = ""
    transactional_id: str = ""
    records: int = 0
    """How many `work` writes in each of two steps: without a transaction, and in one."""
    patience_s: int = 15
    """How long a program tries, where the client would go on for ever."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an order: either of the two."""

    values: tuple[str, ...] = ()
    error: str = ""


def expected_values(order: Order) -> tuple[str, ...]:
    """What a group reads after `work`: what was aborted is not there."""
    numbers = range(order.records)
    return (*(f"plain {each}" for each in numbers), *(f"committed {each}" for each in numbers))


def run_programs(command: Sequence[str], orders: Sequence[Order], count: int) -> list[Answer]:
    """The answers of `count` processes of a program that share the orders, in their order.

    AssertionError if one of them fails.
    """
    with ThreadPoolExecutor(count) as threads:
        parts = [orders[first::count] for first in range(count)]
        answers = list(threads.map(run_program, [command] * count, parts))
    return [answers[number % count][number // count] for number in range(len(orders))]


def run_program(command: Sequence[str], orders: Sequence[Order]) -> list[Answer]:
    """The answers of a program, in the order of its orders. AssertionError if it fails."""
    lines = "".join(json.dumps(asdict(order)) + "\n" for order in orders)
    done = subprocess.run(
        list(command), input=lines, capture_output=True, text=True, timeout=_RUN_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = [_answer(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(orders), done.stdout + done.stderr
    return answers


def _answer(line: str) -> Answer:
    read = cast("dict[str, object]", json.loads(line))
    return Answer(
        tuple(cast("list[str]", read.get("values") or ())), comparable(str(read.get("error") or ""))
    )
