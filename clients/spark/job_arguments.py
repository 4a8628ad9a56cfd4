"""What the jobs' command lines share: where their parsers hang; numbers above zero."""

import argparse
from typing import Protocol


class Jobs(Protocol):
    """Where a job hangs its parser: what `ArgumentParser.add_subparsers` gives."""

    def add_parser(
        self,
        name: str,
        *,
        help: str,
        description: str,
        epilog: str,
        formatter_class: type[argparse.HelpFormatter],
    ) -> argparse.ArgumentParser: ...


def positive(text: str) -> int:
    """A whole number above zero, for argparse's `type`."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
