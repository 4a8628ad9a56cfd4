"""The text files of recordings, as a run with `--kafka record` writes them."""

import re
import threading
from collections.abc import Iterable
from pathlib import Path

from tierlog.bench.harness.processes.kafka_peer import KAFKA_VERSION

from .message_text import shortened_answer, shortened_request
from .transcript import HEADING, PROGRAMS, Entry, Section, parse, read

_DRAWN = re.compile(
    r"(?<![\w-])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![\w-])"
    r"|(?<=')[A-Za-z0-9_-]{21}[AQgw](?=')"
    r"|(?<=-)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![\w-])"
)
"""An id that was drawn at random: Java's UUID, or the 22 characters of Kafka's."""
_RESERVED = "A" * 20
"""Kafka's reserved ids begin like that."""


class RecordedText:
    """The text of one test file: the sections that have run replace those of before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before = read(path)
        self._came: dict[str, list[tuple[object, str, str]]] = {}
        self._lock = threading.Lock()

    def add(self, title: str, connection: object, sign: str, text: str) -> None:
        """Write down a request, an answer or the end of a connection."""
        with self._lock:
            self._came.setdefault(title, []).append((connection, sign, text))

    def save(self, titles: Iterable[str] | None) -> None:
        """Write the file. `titles` are the tests that there are; None keeps the other sections."""
        # Those of fixtures have come, too, and have the places that they had.
        kept = self._before if titles is None else {*titles, *self._came}
        sections = {title: each for title, each in self._before.items() if title in kept}
        for title, came in self._came.items():
            sections[title] = Section(title, _numbered(came))
        heading = HEADING.format(version=KAFKA_VERSION, test=f"test_{self.path.stem}.py")
        body = with_counted_ids("\n".join(map(str, sections.values())))
        shortened = "\n".join(str(_shortened(section)) for section in parse(body).values())
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(f"{heading}\n{shortened}", encoding="utf-8")


def _shortened(section: Section) -> Section:
    """A section without what nobody reads."""
    for entry in section.entries:
        shorten = shortened_request if entry.sign == ">" else shortened_answer
        entry.text = shorten(entry.text)
    return section


def _numbered(came: list[tuple[object, str, str]]) -> list[Entry]:
    numbers: dict[object, int] = {PROGRAMS: PROGRAMS}
    return [
        Entry(numbers.setdefault(connection, len(numbers)), sign, text)
        for connection, sign, text in came
    ]


def with_counted_ids(body: str) -> str:
    """A text whose drawn ids are counted instead: a new recording differs where answers do.

    Ids that a test has chosen, which a request has before any answer, stay as they are.
    """
    counted: dict[str, str] = {}

    def replaced(found: re.Match[str]) -> str:
        drawn = found[0]
        if drawn.startswith(_RESERVED):
            return drawn
        if drawn not in counted:
            line = body.rfind("\n", 0, found.start())
            counted[drawn] = drawn if _is_of_a_request(body, line) else _counted(drawn, counted)
        return counted[drawn]

    return _DRAWN.sub(replaced, body)


def _is_of_a_request(body: str, line_break: int) -> bool:
    """Whether the line after a line break, or the line that it continues, is a request."""
    start = line_break + 1
    while start > 0 and body[start] in " )]":
        start = body.rfind("\n", 0, start - 1) + 1
    return body[start:].split(" ", 2)[1:2] == [">"]


def _counted(drawn: str, counted: dict[str, str]) -> str:
    number = len(counted) + 1
    if len(drawn) == 22:
        return f"drawn-id-{number:012}A"
    return f"00000000-0000-4000-8000-{number:012}"
