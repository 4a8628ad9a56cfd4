"""The table of clients and tools in docs/clients.md, made of what a whole run has started.

    make test-kafka # compares that table with what ran, and says where they differ
    make table      # writes the table of that run

Names, versions and group protocols are compared. What a tool was asked for, and the assignors, are
written anew with the table and may fall behind in between: they are its details.
"""

import json
import re
from collections.abc import Collection, Generator, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.tests import toolchain

from .ran import CONNECT, Ran, RanPlugin

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "clients.md"
CACHE_KEY = "tierlog/ran"
COMMAND = "make table"
_CACHE = ROOT / ".pytest_cache" / "v" / CACHE_KEY
_BEGIN = "<!-- Written by `make table` from what `make test-kafka` ran. -->\n"
_END = "<!-- End of the table. -->\n"

_CLIENTS = {
    "confluent-kafka": "Python, on librdkafka (C)",
    "kafka-python": "Python",
    "aiokafka": "Python, asyncio",
    "kafkajs": "JavaScript",
    "franz-go": "Go",
    "kafka-clients": "Java",
    CONNECT: "Java",
    "Kafka Streams": "Java",
}
_TOOLCHAINS = {
    "confluent-kafka": (),
    "kafka-python": (),
    "aiokafka": (),
    "kafkajs": ("node",),
    "franz-go": ("go",),
}
_JAVA = ("java", "mvn")
# What is given to every tool says nothing of what it was asked for.
_PLAIN_OPTIONS = frozenset(
    {
        *("--bootstrap-server", "--command-config", "--group", "--topic", "--files"),
        *("--entity-type", "--entity-name", "--timeout-ms", "--formatter", "--name", "--max"),
    }
)
_ROW = re.compile(r"\| (?P<name>[^|]+?) \| (?P<version>[^|]+?) \|(?P<details>.*)\|")


class Row(NamedTuple):
    """What is compared: a client or tool at a version, and what its groups spoke."""

    name: str
    version: str
    protocols: tuple[str, ...]


def rows_that_ran(uses: Iterable[Ran]) -> set[Row]:
    """One row for each version of each client and tool."""
    protocols: dict[tuple[str, str], set[str]] = {}
    for use in uses:
        protocols.setdefault((use.name, use.version), set()).update({use.protocol} - {""})
    return {Row(*key, tuple(sorted(spoken))) for key, spoken in protocols.items()}


def rows_of(page: str) -> dict[Row, str]:
    """The rows that a page has between its marks, each with its line."""
    found: dict[Row, str] = {}
    for line in _between_marks(page).splitlines():
        row = _ROW.fullmatch(line)
        if row is not None and row["version"][0].isdigit():
            protocols = re.findall(r"(classic|consumer):", row["details"])
            found[Row(row["name"], row["version"], tuple(sorted(protocols)))] = line
    return found


def _between_marks(page: str) -> str:
    return page.partition(_BEGIN)[2].partition(_END)[0]


def could_run(row: Row) -> bool:
    """Whether this machine has the toolchain that a client or tool needs."""
    return not toolchain.missing(_TOOLCHAINS.get(row.name, _JAVA))


def differences(page: str, uses: Iterable[Ran]) -> list[str]:
    """Where the page's table and a whole run differ, a line each."""
    ran, stated = rows_that_ran(uses), set(rows_of(page))
    return [
        *(
            f"ran, and docs/clients.md does not say so: {_text(row)}"
            for row in sorted(ran - stated)
        ),
        *(
            f"in docs/clients.md, and did not run: {_text(row)}"
            for row in sorted(stated - ran)
            if could_run(row)
        ),
    ]


def _text(row: Row) -> str:
    return " ".join([row.name, row.version, *row.protocols])


def table(uses: Collection[Ran], kept: Mapping[Row, str]) -> str:
    """Both tables; `kept` are rows of before that this machine cannot run."""
    details: dict[Row, set[tuple[str, str]]] = {}
    rows = {row[:2]: row for row in rows_that_ran(uses)}
    for use in uses:
        row = rows[use.name, use.version]
        details.setdefault(row, set()).add((use.protocol, use.did))
    lines = {row: _line(row, said) for row, said in details.items()} | dict(kept)
    clients = [lines[row] for row in sorted(lines) if _is_client(row)]
    tools = [lines[row] for row in sorted(lines) if not _is_client(row)]
    return "\n".join(
        [
            *("| client | version | language; group protocols and assignors |", "|---|---|---|"),
            *(*clients, "", "| Apache Kafka tool | version | options used |", "|---|---|---|"),
            *(*tools, ""),
        ]
    )


def _is_client(row: Row) -> bool:
    return row.name in _CLIENTS or bool(row.protocols)


def _did(said: set[tuple[str, str]], protocol: str) -> str:
    return ", ".join(sorted({did for spoken, did in said if spoken == protocol and did}))


def _line(row: Row, said: set[tuple[str, str]]) -> str:
    if _is_client(row):
        groups = [f"{protocol}: {_did(said, protocol)}" for protocol in row.protocols]
        modes = sorted({did for spoken, did in said if not spoken and did})
        words = "; ".join([*filter(None, [_CLIENTS.get(row.name)]), *groups, *modes])
    else:
        options = {word for _, did in said for word in did.split()} - _PLAIN_OPTIONS
        words = " ".join(sorted(option.removeprefix("--") for option in options))
    return f"| {row.name} | {row.version} | {words} |"


def with_table(page: str, uses: Collection[Ran]) -> str:
    """The page with the table of what ran, and the rows that cannot run here."""
    kept = {row: line for row, line in rows_of(page).items() if not could_run(row)}
    before, _, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert end, "the page has no marks for the table"
    return f"{before}{_BEGIN}\n{table(uses, kept)}\n{_END}{after}"


class CompareTable:
    """At the end of a whole run: the comparison, and what `make table` needs."""

    def __init__(self, page: Path, ran: RanPlugin) -> None:
        self._page = page
        self._ran = ran
        self._said: list[str] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._ran.is_all_passed or session.shouldstop:
            self._said = ["clients and tools: not compared with docs/clients.md, for tests failed"]
            return
        if session.config.pluginmanager.hasplugin("cacheprovider"):
            session.config.cache.set(CACHE_KEY, sorted(self._ran.passed))
        self._said = differences(self._page.read_text(), self._ran.passed)
        if self._said:
            # Told and not failed: a table that falls behind is no fault of the broker.
            self._said.append(f"the table of clients and tools is mended by: {COMMAND}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, None, None]:
        yield
        terminalreporter.ensure_newline()
        for line in self._said:
            terminalreporter.write_line(line)


def main() -> None:
    """Write the table of the last whole run that went well."""
    if not _CACHE.exists():
        raise SystemExit("no whole run went well yet: make test-kafka")
    uses = [Ran(*use) for use in json.loads(_CACHE.read_text())]
    PAGE.write_text(with_table(PAGE.read_text(), uses))


if __name__ == "__main__":
    main()
