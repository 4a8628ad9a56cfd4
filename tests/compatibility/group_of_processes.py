"""A consumer group of real clients, each a process, watched through what it prints."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self, TypedDict

from ..waiting import wait_until
from .foreign_members import FOREIGN_CLIENTS, foreign_command
from .java_member import EXIT_CODE_ON_SIGTERM, java_member
from .ran import kafka_version, record

TIMEOUT_S = 60


class Options(TypedDict):
    """What the test tells the member; a topic that begins with `^` is a pattern."""

    client: str
    bootstrap: str
    topic: str
    group: str
    protocol: str
    strategy: str
    session_ms: int
    """In the classic protocol; the `consumer` protocol leaves it to the broker."""
    instance: str | None


class Way(NamedTuple):
    """How a member takes part in its group; no client: the group's."""

    protocol: str
    strategy: str
    client: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """What a member said, or what was done to it; `at` in nanoseconds of the machine's clock.

    A partition is called as its directory is: `topic-0`.
    """

    at: int
    member: str
    event: str
    partitions: tuple[str, ...] = ()
    offset: int = -1


def command_of(options: Options) -> list[str]:
    """What runs a member."""
    if options["client"] == "java":
        properties = {"bootstrap.servers": options["bootstrap"], "group.id": options["group"]}
        if options["protocol"] == "classic":
            properties["session.timeout.ms"] = str(options["session_ms"])
        if options["instance"] is not None:
            properties["group.instance.id"] = options["instance"]
        return java_member(options["topic"], properties, options["strategy"], options["protocol"])
    if options["client"] in FOREIGN_CLIENTS:
        return foreign_command(options["client"], options)
    module = "tierlog.tests.compatibility.group_member"
    return [sys.executable, "-m", module, json.dumps(options)]


class MemberProcess:
    """One member, and everything it has said."""

    def __init__(self, name: str, options: Options, directory: Path) -> None:
        self.name = name
        self.events: list[Event] = []
        root = Path(__file__).parent.parent.parent
        environment = {**os.environ, "PYTHONPATH": str(root / ".namespace")}
        self._is_java = options["client"] == "java"
        if self._is_java:
            record(
                "kafka-clients",
                kafka_version(),
                protocol=options["protocol"],
                did=options["strategy"],
            )
        self.errors = directory / f"{name}.err"
        with self.errors.open("ab") as errors:
            self._process = subprocess.Popen(
                command_of(options),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
            )
        self._reader = threading.Thread(target=self._read, name=name)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                each = json.loads(line)
                partitions = tuple(each["partitions"])
                event = Event(each["at"], self.name, each["event"], partitions, each["offset"])
                self.events.append(event)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def owned(self) -> set[str]:
        """The partitions it has been given and not given up."""
        owned: set[str] = set()
        for event in list(self.events):
            if event.event == "assigned":
                owned.update(event.partitions)
            elif event.event == "revoked":
                owned.difference_update(event.partitions)
            elif event.event in {"left", "killed"}:
                owned.clear()
        return owned

    @property
    def read(self) -> set[tuple[str, int]]:
        """Partition and offset of every record it has read."""
        return self.read_since(0)

    def read_since(self, event: int) -> set[tuple[str, int]]:
        """The same, from that event's number on."""
        events = self.events[event:]
        return {(each.partitions[0], each.offset) for each in events if each.event == "read"}

    def send(self, what: str) -> int:
        """Have it do something, and wait until it has; the number of events until then."""
        stdin = self._process.stdin
        assert stdin is not None
        before = len(self.events)
        stdin.write(what.encode() + b"\n")
        stdin.flush()
        event = what.split()[0]

        def done() -> int:
            numbers = range(before, len(self.events))
            return next((n for n in numbers if self.events[n].event == event), -1)

        wait_until(lambda: done() >= 0, TIMEOUT_S, lambda: f"{what}: {self.describe()}")
        return done()

    def describe(self) -> str:
        events = [each for each in list(self.events) if each.event != "read"]
        said = [
            f"{each.event} {','.join(name.rpartition('-')[2] for name in each.partitions)}"
            for each in events[-12:]
        ]
        return (
            f"{self.name}: owns {sorted(self.owned)}, read {len(self.read)}, "
            f"{'runs' if self.is_running else 'ended'}, said {said} "
            f"{self.errors.read_text()[-2000:]}"
        )

    def leave(self) -> None:
        """Leave the group as clients do when they are closed."""
        self._process.terminate()
        self._end()
        orderly = EXIT_CODE_ON_SIGTERM if self._is_java else 0
        assert self._process.returncode == orderly, self.errors.read_text()

    def kill(self) -> None:
        """Die without a word to the group."""
        self.events.append(Event(time.time_ns(), self.name, "killed"))
        self._process.kill()
        self._end()

    def close(self) -> None:
        """Nobody needs it any more."""
        if self.is_running:
            self.kill()
        else:
            self._end()

    def _end(self) -> None:
        self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        assert self._process.stdin is not None
        self._process.stdin.close()


class GroupOfProcesses:
    """Members of one group; those that still run at the end are killed."""

    def __init__(self, options: Options, directory: Path) -> None:
        self._options = options
        self._directory = directory
        self.members: list[MemberProcess] = []

    def start(
        self, name: str, *, instance: str | None = None, by: Way | None = None
    ) -> MemberProcess:
        """Start a member; `by`: it takes part in another way than the group's others."""
        options: Options = {**self._options, "instance": instance}
        if by is not None:
            options["protocol"], options["strategy"] = by.protocol, by.strategy
            options["client"] = by.client or options["client"]
        member = MemberProcess(name, options, self._directory)
        self.members.append(member)
        return member

    def wait_for_shares(self, *shares: int) -> None:
        """Wait until the running members own so many partitions each, and all of them together."""
        expected = sorted(shares)

        def shared() -> bool:
            owned = [member.owned for member in self.members if member.is_running]
            together = set[str]().union(*owned)
            return sorted(map(len, owned)) == expected and len(together) == sum(expected)

        wait_until(shared, TIMEOUT_S, lambda: f"shares of {expected}: {self.describe()}")

    def wait_until_read(self, count: int) -> None:
        """Wait until so many different records have been read by anyone."""

        def enough() -> bool:
            return len(self.read) >= count

        wait_until(enough, TIMEOUT_S, lambda: f"{count} records read: {self.describe()}")

    @property
    def read(self) -> set[tuple[str, int]]:
        return set[tuple[str, int]]().union(*(member.read for member in self.members))

    @property
    def moves(self) -> list[Event]:
        """Every partition given or taken so far, a member after the other."""
        events = [event for member in self.members for event in list(member.events)]
        return [e for e in events if e.event in {"assigned", "revoked"} and e.partitions]

    def check_ownership(self) -> None:
        """From the members' own words: no partition had two owners at any time."""
        owners: dict[str, str] = {}
        events = [event for member in self.members for event in member.events]
        # Where a clock shows milliseconds only, what was given up was given up first.
        for event in sorted(events, key=lambda event: (event.at, event.event == "assigned")):
            if event.event == "assigned":
                for partition in event.partitions:
                    owner = owners.get(partition, event.member)
                    assert owner == event.member, f"{partition} is {owner}'s: {self.describe()}"
                    owners[partition] = event.member
            elif event.event == "revoked":
                for partition in event.partitions:
                    owners.pop(partition, None)
            elif event.event in {"left", "killed"}:
                owners = {part: name for part, name in owners.items() if name != event.member}

    def describe(self) -> str:
        return "\n".join(member.describe() for member in self.members)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.close()
