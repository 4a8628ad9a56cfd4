"""docs/operations.md as a test reads it: sections, and the lines of their blocks."""

import re
from typing import NamedTuple

from tierlog.tests.house_rules import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text()


class Block(NamedTuple):
    """A block between fences; the kind is what stands behind the first one."""

    kind: str
    text: str


def sections() -> dict[str, str]:
    """The text of each section, by its heading."""
    _, *parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    return {head: body for head, _, body in (part.partition("\n") for part in parts)}


def blocks(section: str, kind: str = "") -> list[Block]:
    """The blocks of one kind in a section, in their order."""
    every = re.findall(r"^```(\w*)\n(.*?)^```$", sections()[section], re.MULTILINE | re.DOTALL)
    return [Block(each, text) for each, text in every if each == kind]


def commands(section: str) -> list[list[str]]:
    """The command lines of each block of a section."""
    return [block.text.splitlines() for block in blocks(section)]


def log_lines(section: str) -> list[str]:
    """The lines of a log that a section shows: those that are indented."""
    return re.findall(r"^    (\S.*)$", sections()[section], re.MULTILINE)
