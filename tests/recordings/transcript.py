"""The text of a recording: what was asked, and what Kafka answered, test by test.

    === test_metadata_of_a_topic[known-4]
    1 > v4 MetadataRequest(topics=[MetadataRequestTopic(name='known')])
    1 < MetadataResponse(
      brokers=[MetadataResponseBroker(node_id=1, host='127.0.0.1', port=PORT)],
    ...
    2 > hex:00120063
    2 closed

A section is a test, or a fixture that several tests share (`=== fixture brokers`). Its lines are in
the order in which things came; the number is the connection's, counted in the section. `>` is a
request with its version, `<` the answer that Kafka gave next on that connection; a line that begins
with spaces belongs to the one before it. A frame that is no message of ours is in hexadecimal.

What differs from run to run has a name: `PORT` is the broker's port and `CONTROLLER_PORT` its
controller's, `DIRECTORY` where it keeps its data, and ids that were drawn at random are counted,
in the order of the text.
"""

from dataclasses import dataclass, field
from pathlib import Path

HEADING = """\
# What Apache Kafka {version} answered to {test}.
# `make record` writes this text; tests/recordings/transcript.py describes it.
"""

PROGRAMS = 0
"""The number of what programs print, in place of a connection's (`printed_lines.py`)."""


@dataclass(slots=True)
class Entry:
    """One line of a section: a request, an answer, or the end of a connection."""

    connection: int
    sign: str
    """`>` a request, `<` an answer, `closed` Kafka has closed the connection."""
    text: str = ""

    def __str__(self) -> str:
        return f"{self.connection} {self.sign} {self.text}".rstrip()


@dataclass(slots=True)
class Section:
    """What one test, or one fixture, has asked."""

    title: str
    entries: list[Entry] = field(default_factory=list[Entry])

    def __str__(self) -> str:
        return "\n".join([f"=== {self.title}", *map(str, self.entries), ""])


def parse(text: str) -> dict[str, Section]:
    """The sections of a text by their titles. Raises ValueError."""
    sections: dict[str, Section] = {}
    entries: list[Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("=== "):
            title = line.removeprefix("=== ")
            entries = sections.setdefault(title, Section(title)).entries
        elif line.startswith((" ", ")", "]")):
            entries[-1].text += "\n" + line
        elif line and not line.startswith("#"):
            words = line.split(" ", 2)
            if not words[0].isdecimal() or words[1] not in (">", "<", "closed"):
                raise ValueError(f"line {number} is no entry: {line[:80]}")
            entries.append(Entry(int(words[0]), words[1], words[2] if words[2:] else ""))
    return sections


def read(path: Path) -> dict[str, Section]:
    """The sections of a file; none if there is no such file."""
    return parse(path.read_text(encoding="utf-8")) if path.exists() else {}


def path_of(test_file: Path) -> Path:
    """Where the recording of a test file is."""
    return test_file.parent / "recorded" / f"{test_file.stem.removeprefix('test_')}.txt"
