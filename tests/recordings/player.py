"""Plays Kafka: answers requests from a recording.

A request is looked for in the section of the test that is running. Its answer is the recorded one,
and is sent when all has come that had come in the recording before Kafka answered: a member that
waited in a JoinGroup until the next one joined waits here, too. A request that comes more
often than in the recording, as from a test that polls, gets the last answer again. A test that has
passed must have asked each of its requests at least once.
"""

import socket
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from . import sections, transcript
from .frames import Request, answer_frame, framed, frames_of, read_request
from .message_text import shortened_request
from .transcript import PROGRAMS, Entry, Section

_PATIENCE_S = 60
"""How long an answer waits for requests that had come before it in the recording."""

_ESCAPED = str.maketrans({each: f"\\{each}" for each in "\\'\""})


class MissingRequestError(AssertionError):
    """A test asks what its recording does not have."""


class UnaskedRequestError(AssertionError):
    """A recording has what its test does not ask."""


class Program(NamedTuple):
    """What a program was asked, where that is in the section, and what it printed."""

    asked: list[str]
    places: list[int]
    printed: list[str]


def _programs(entries: list[Entry]) -> Iterator[Program]:
    """The programs of a section, one after the other."""
    program: Program | None = None
    for place, entry in enumerate(entries):
        if entry.connection != PROGRAMS:
            continue
        if entry.sign == "<":
            assert program is not None, "a program prints before it is asked"
            program.printed.append(entry.text)
            continue
        if program is None or program.printed:
            if program is not None:
                yield program
            program = Program([], [], [])
        program.asked.append(entry.text)
        program.places.append(place)
    if program is not None:
        yield program


class SectionPlay:
    """What of one section has been played.

    The requests of a connection come in the order of the recording, but a test that polls may ask
    more often, and gets the last answer again, or less often.
    """

    def __init__(self, section: Section) -> None:
        self.entries = section.entries
        self._requests: dict[int, list[int]] = {}
        for place, entry in enumerate(self.entries):
            if entry.sign == ">" and entry.connection != PROGRAMS:
                self._requests.setdefault(entry.connection, []).append(place)
        self._programs = list(_programs(self.entries))
        self.rewind()

    def rewind(self) -> None:
        """Nothing of it was played."""
        self.used: set[int] = set()
        self._left = {label: deque(places) for label, places in self._requests.items()}
        self._labels: dict[socket.socket, int] = {}
        """The connections that have come, by their numbers in the recording."""
        self._last: dict[str, int] = {}
        self._programs_from = 0
        """The number of the next program."""

    def find(self, text: str, connection: socket.socket) -> int | None:
        """The place of a request that was not yet played, and that can be this connection's."""
        label = self._labels.get(connection)
        if label is None:
            taken = self._labels.values()
            fitting = (
                each
                for each, places in self._requests.items()
                if each not in taken and self.entries[places[0]].text == text
            )
            label = next(fitting, None)
            if label is None:
                return None
            self._labels[connection] = label
        left = self._left[label]
        skipped = 0
        while skipped < len(left) and self.entries[left[skipped]].text != text:
            if self.entries[left[skipped]].text not in self._last:
                return None  # It was never asked: the test leaves out what it did.
            skipped += 1
        if skipped == len(left):
            return None
        places = [left.popleft() for _ in range(skipped + 1)]
        self.used.update(places)
        self._last[text] = places[-1]
        return places[-1]

    def play_program(self, asked: list[str]) -> list[str] | None:
        """What a program printed that was asked this, the next time that it was asked."""
        for number in range(self._programs_from, len(self._programs)):
            program = self._programs[number]
            if program.asked == asked:
                self._programs_from = number + 1
                self.used.update(program.places)
                return program.printed
        return None

    def again(self, text: str) -> int | None:
        """The place where a request was played last that comes again."""
        return self._last.get(text)

    def unasked(self) -> list[str]:
        """The requests that never came, not even once."""
        asked = {self.entries[place].text for place in self.used}
        return [each.text for each in self.entries if each.sign == ">" and each.text not in asked]

    def effects(self, place: int) -> list[int]:
        """The places of what Kafka sent on the request's connection, until its next request."""
        label = self.entries[place].connection
        found: list[int] = []
        for later in range(place + 1, len(self.entries)):
            entry = self.entries[later]
            if entry.connection != label:
                continue
            if entry.sign == ">":
                break
            found.append(later)
        return found

    def is_due(self, request: int, answer: int) -> bool:
        """Whether all has come that came between a request and its answer in the recording."""
        return all(
            place in self.used
            for place in range(request + 1, answer)
            if self.entries[place].sign == ">"
        )


class Recording:
    """The recording of a test file, as it is played."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sections = {
            title: SectionPlay(section) for title, section in transcript.read(path).items()
        }
        self._nothing = SectionPlay(Section("nothing"))

    def rewind(self, title: str) -> None:
        """Play a section from its first line."""
        if title in self._sections:
            self._sections[title].rewind()

    def section(self, title: str) -> SectionPlay:
        return self._sections.get(title, self._nothing)


class Player:
    """The connections of one Kafka that is played."""

    def __init__(self, recording: Recording, ports: Mapping[str, int], directory: Path) -> None:
        """`ports` are the player's, by the names that they have in the text."""
        self._recording = recording
        self.texts: Mapping[object, str] = {("port", port): name for name, port in ports.items()}
        self.values: Mapping[str, int | str] = ports
        self._changed = threading.Condition()
        self._directory = str(directory)
        self.errors: list[str] = []

    def serve(self, connection: socket.socket) -> None:
        """Answer the requests of a connection until it ends."""
        unanswered: deque[Request] = deque()
        for frame in frames_of(connection):
            request = read_request(frame, self.texts)
            text = request.text.replace(self._directory, "DIRECTORY")
            request = request._replace(text=shortened_request(text))
            if request.has_answer:
                unanswered.append(request)
            if not self._answer(connection, request, unanswered):
                return

    def _answer(
        self, connection: socket.socket, request: Request, unanswered: deque[Request]
    ) -> bool:
        """Send what Kafka sent; False where it closed the connection."""
        title = sections.running().title
        with self._changed:
            found = self._find(title, request.text, connection)
            self._changed.notify_all()
        if found is None:
            self.errors.append(self._missing(title, request.text))
            return False
        section, place, is_new = found
        for effect in section.effects(place):
            entry = section.entries[effect]
            if entry.sign == "closed":
                return False
            if is_new and not self._wait_until_due(section, place, effect):
                self.errors.append(self._early(title, request.text))
                return False
            if not self._send(connection, entry, unanswered):
                return False
        return True

    def _wait_until_due(self, section: SectionPlay, request: int, answer: int) -> bool:
        with self._changed:
            return self._changed.wait_for(partial(section.is_due, request, answer), _PATIENCE_S)

    def _find(
        self, title: str, text: str, connection: socket.socket
    ) -> tuple[SectionPlay, int, bool] | None:
        section = self._recording.section(title)
        place = section.find(text, connection)
        if place is not None:
            return section, place, True
        place = section.again(text)
        return None if place is None else (section, place, False)

    def _send(self, connection: socket.socket, entry: Entry, unanswered: deque[Request]) -> bool:
        if not unanswered:
            return True
        # It stands within a text's quotes, of either kind.
        quoted = self._directory.translate(_ESCAPED)
        text = entry.text.replace("DIRECTORY", quoted)
        frame = answer_frame(text, unanswered.popleft(), self.values)
        try:
            connection.sendall(framed(frame))
        except OSError:
            return False
        return True

    def _early(self, title: str, text: str) -> str:
        return (
            f"In {self._recording.path.name}, Kafka answers this request of `{title}` after others "
            f"that did not come within {_PATIENCE_S} s.\n{text}"
        )

    def _missing(self, title: str, text: str) -> str:
        return (
            f"{self._recording.path.name} has no answer of Kafka's to this request in `{title}`. "
            "Stories of a file share a broker: run the whole file. If it still asks this, run "
            f"`make record`, which needs Java and Maven, and read the difference.\n{text}"
        )
