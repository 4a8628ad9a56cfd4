"""The loop that the programs of the Python clients share."""

import json
import logging
import sys
from collections.abc import Callable

from .orders import Order


class ErrorLog(logging.Handler):
    """Keeps the sentences that a client logs as errors while it works off an order."""

    def __init__(self, name: str) -> None:
        """`name`: of the client's logger, which tells nobody else from now on."""
        super().__init__(logging.ERROR)
        self._sentences: list[str] = []
        logger = logging.getLogger(name)
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self._sentences.append(record.getMessage())

    @property
    def has_any(self) -> bool:
        return bool(self._sentences)

    def take(self) -> str:
        """The sentences since the last call, each once, in an order of their own."""
        taken = sorted(set(self._sentences))
        self._sentences.clear()
        return "".join(f"\nlogged: {each}" for each in taken)


def obey(do: Callable[[Order], list[str]], sentence: Callable[[], str] = lambda: "") -> None:
    """Work off the orders on the standard input.

    The error of an order is what `do` raises, and what `told` says that the client has said.
    """
    for line in sys.stdin:
        order = Order(**json.loads(line))
        sentence()
        try:
            answer: dict[str, object] = {"values": do(order)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}{sentence()}"}
        print(json.dumps(answer), flush=True)
