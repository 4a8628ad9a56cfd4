"""docs/limits.md: every bound that clients share, who can use it up, who pays, and its test.

    python -m tierlog.tests.limits_page     writes the page anew, from tests/limits.toml

The values are read from the code: of a property its default, otherwise the constant.
"""

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

from tierlog.broker.config.config_values import TABLES
from tierlog.tests.house_rules import ROOT

PAGE = ROOT / "docs" / "limits.md"
TABLE = ROOT / "tests" / "limits.toml"
UNLIMITED = (1 << 31) - 1

_INTRODUCTION = """\
# Limits

Every bound that clients share, and what happens when it is reached. A client that keeps still, or
is slow, must cost nobody else anything: the last columns say who pays instead, and which test shows
it. `python -m tierlog.tests.limits_page` writes this page from `tests/limits.toml` and the code.
The properties are in [server.properties](server.properties).

| limit | value | counts | who can use it up by doing nothing | who pays | test |
|---|---|---|---|---|---|
"""


class Limit(NamedTuple):
    """A bound: a property, or a file and the constant in it."""

    bound: str
    held: str
    silent: str
    pays: str
    test: str
    value: str = ""


class _Own(TypedDict):
    of: str
    names: list[str]


class _Table(TypedDict):
    limit: list[dict[str, str]]
    own: list[_Own]


_ROOMS = (
    "broker",
    "coordinator",
    "security",
    "replication",
    "tiering",
    "storage",
    *map("clients/{}".format, ("protocol", "record", "patterns")),
)
"""Where the bounds of a server are."""

_OTHER_ROOMS = ("tiering/tools/",)
"""What runs beside a broker, or before it."""

_NUMBER = re.compile(r"U?INT(32|64)")
"""A number of the machine is no bound."""


def _table() -> _Table:
    return cast("_Table", tomllib.loads(TABLE.read_text()))


def limits() -> list[Limit]:
    """The bounds that clients share."""
    return [Limit(**each) for each in _table()["limit"]]


def own_bounds() -> list[str]:
    """Constants that bound one thing alone, such as a connection."""
    return [name for own in _table()["own"] for name in own["names"]]


def bounds_of_the_server() -> set[str]:
    """Every constant that says by its name that it is a maximum: its file and its name."""
    return {
        f"{path}:{name}"
        for room in _ROOMS
        for file in (ROOT / room).rglob("*.py")
        if not (path := file.relative_to(ROOT).as_posix()).startswith(_OTHER_ROOMS)
        for name in constants(file)
        if "MAX" in name.split("_") and not _NUMBER.search(name)
    }


def constants(path: Path) -> set[str]:
    """The names of the constants at the top of a module."""
    found: set[str] = set()
    for each in ast.parse(path.read_text()).body:
        match each:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case _:
                pass
    return found


def value_of(limit: Limit) -> str:
    """The default of a property, or the value of a constant. Raises KeyError if there is none."""
    bound = limit.bound
    if ".py:" not in bound:
        definition = TABLES.find(bound)
        if definition is None:
            raise KeyError(bound)
        return _readable(str(definition.default))
    path, _, name = bound.partition(":")
    module = import_module(f"tierlog.{path.removesuffix('.py').replace('/', '.')}")
    return limit.value or _readable(str(vars(module)[name]))


def _readable(value: str) -> str:
    number = int(value) if value.isdigit() else None
    if number is None:
        return value
    return "unlimited" if number == UNLIMITED else f"{number:,}"


def page() -> str:
    """The page in whole."""
    rows = [
        f"| `{each.bound}` | {value_of(each)} | {each.held} | {each.silent} | {each.pays} |"
        f" `{each.test}` |\n"
        for each in limits()
    ]
    return _INTRODUCTION + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page())
