"""What producers say was acknowledged, and what a reader says about it.

The values of each partition are numbers that its only producer counts up, so that what is read must
be a rising sequence in which every acknowledged number has its place.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

_SHOWN = 3


class Answer(NamedTuple):
    """An acknowledgement: the offset is negative where the client does not know it."""

    offset: int
    at: float
    """Seconds of `time.time`."""


@dataclass(slots=True)
class Acknowledged:
    """Everything that one producer was answered."""

    answers: dict[int, dict[int, Answer]] = field(default_factory=dict[int, dict[int, Answer]])
    """By partition and number."""
    failures: list[str] = field(default_factory=list[str])
    """Records that may or may not be there."""

    @property
    def records(self) -> int:
        return sum(map(len, self.answers.values()))

    def longest_gaps_s(self, moments: Sequence[float]) -> list[float]:
        """For each moment, the longest time without an acknowledgement of some partition.

        What counts are the gaps that a moment falls into or that begin after it, and before the
        next moment.
        """
        worst = [0.0] * len(moments)
        for answers in self.answers.values():
            times = sorted(answer.at for answer in answers.values())
            at = 0
            for before, after in pairwise(times):
                while at + 1 < len(moments) and moments[at + 1] <= before:
                    at += 1
                reached = at
                while reached < len(moments) and moments[reached] < after:
                    begin = max(before, moments[reached])
                    worst[reached] = max(worst[reached], after - begin)
                    reached += 1
        return worst


def parse_answers(lines: Iterable[str]) -> Acknowledged:
    """Parse what a steady producer printed. Raises ValueError for a line that is torn."""
    acknowledged = Acknowledged()
    for line in lines:
        kind, partition, number, *rest = line.split(maxsplit=4)
        if kind == "f":
            acknowledged.failures.append(line.strip())
            continue
        offset, nanoseconds = rest
        answers = acknowledged.answers.setdefault(int(partition), {})
        answers[int(number)] = Answer(int(offset), int(nanoseconds) / 1e9)
    return acknowledged


class ReadBack(NamedTuple):
    """One record that the reader got."""

    offset: int
    number: int


class Wrong(StrEnum):
    """What can be wrong with what was read back."""

    LOST = "lost"
    """It was acknowledged, and is not there."""
    DOUBLED = "doubled"
    """It is there twice."""
    DOUBLED_BY_CLIENT = "doubled_by_client"
    """It is there twice, and its producer wrote it again in a new epoch (`batch_producers.py`)."""
    REORDERED = "reordered"
    """It comes after one that was sent later, or is not where it was acknowledged."""
    ABORTED_READ = "aborted_read"
    """It was read although its transaction was aborted."""
    OTHER = "other"
    """Anything else that Kafka does not allow."""


NAMED_WHERE_THERE = frozenset({Wrong.DOUBLED_BY_CLIENT, Wrong.OTHER})
"""What a line or a page names only where there is some."""


class Twice(NamedTuple):
    """Where a record is that is there twice."""

    partition: int
    offset: int
    again: int


class Violation(NamedTuple):
    """One thing that is wrong, and a sentence about it."""

    wrong: Wrong
    text: str
    twice: Twice | None = None


def violations(
    acknowledged: Acknowledged, read: Mapping[int, Sequence[ReadBack]]
) -> list[Violation]:
    """Everything that is wrong with what was read of what was acknowledged."""
    wrong: list[Violation] = []
    for partition in sorted({*acknowledged.answers, *read}):
        answers = acknowledged.answers.get(partition, {})
        wrong += _in_partition(partition, answers, read.get(partition, ()))
    return wrong


def _in_partition(
    partition: int, answers: Mapping[int, Answer], records: Sequence[ReadBack]
) -> Iterator[Violation]:
    offsets: dict[int, list[int]] = {}
    highest = ReadBack(-1, -1)
    for record in records:
        places = offsets.setdefault(record.number, [])
        if places:
            yield Violation(
                Wrong.DOUBLED,
                f"Record {record.number} of partition {partition} is there twice: at offset "
                f"{places[0]} and at offset {record.offset}.",
                Twice(partition, places[0], record.offset),
            )
        elif record.number < highest.number:
            yield Violation(
                Wrong.REORDERED,
                f"Record {record.number} of partition {partition} is out of order: offset "
                f"{record.offset} comes after record {highest.number} at offset {highest.offset}.",
            )
        highest = max(highest, record, key=lambda each: each.number)
        places.append(record.offset)
    for number, answer in answers.items():
        if number not in offsets:
            yield Violation(
                Wrong.LOST,
                f"Record {number} of partition {partition} was acknowledged at offset "
                f"{answer.offset} and is lost; {len(records)} were read, the last is "
                f"{records[-1] if records else None}.",
            )
        elif answer.offset >= 0 and answer.offset not in offsets[number]:
            yield Violation(
                Wrong.REORDERED,
                f"Record {number} of partition {partition} was acknowledged at offset "
                f"{answer.offset} and is at offset {offsets[number][0]}.",
            )


def wrong_records(acknowledged: Acknowledged, read: Mapping[int, Sequence[ReadBack]]) -> list[str]:
    """One sentence for each violation: what is lost, there twice, or out of its order."""
    return [violation.text for violation in violations(acknowledged, read)]


def copy_violations(
    name: str,
    source: Mapping[int, Sequence[ReadBack]],
    copied: Mapping[int, Sequence[ReadBack]],
) -> list[Violation]:
    """What is wrong with a copy, which must have every record of its source once and in order."""
    wrong: list[Violation] = []
    for partition, records in source.items():
        numbers = [record.number for record in records]
        copies = [record.number for record in copied.get(partition, ())]
        if numbers == copies:
            continue
        at = next(
            (at for at, pair in enumerate(zip(numbers, copies, strict=False)) if len({*pair}) > 1),
            min(len(numbers), len(copies)),
        )
        text = (
            f"Partition {partition} of {name} has {len(copies)} records and its source "
            f"{len(numbers)}; at place {at} they are {copies[at : at + 5]} and "
            f"{numbers[at : at + 5]}."
        )
        expected, there = Counter(numbers), Counter(copies)
        kinds = [Wrong.LOST] if expected - there else []
        kinds += [Wrong.DOUBLED] if there - expected else []
        wrong += [Violation(kind, text) for kind in kinds or [Wrong.REORDERED]]
    return wrong


def shortened(wrong: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" (and {len(wrong) - _SHOWN} more)" if len(wrong) > _SHOWN else ""
    return " ".join(wrong[:_SHOWN]) + more
