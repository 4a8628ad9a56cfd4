"""What a pattern is compiled into: steps of a nondeterministic automaton (Thompson, 1968).

A program is a list of steps; jumps in it are relative, so that programs are joined by joining their
lists, and repeated by repeating them. It has a greatest size: no pattern fills the memory.
"""

from enum import IntEnum
from typing import NamedTuple

from .characters import CharClass

STEPS_MAX = 32_768
WRITTEN_MAX = 32 * STEPS_MAX
"""How many steps may be written while a program is made, those that are dropped again included."""


class Op(IntEnum):
    """What a step does."""

    CHARACTER = 0
    """Accept one character."""
    FORK = 1
    """Go on at two steps; the first is preferred."""
    JUMP = 2
    ASSERT = 3
    """Go on if what stands before and behind is as it should be."""
    MARK = 4
    """Note the position: the begin or the end of a group."""
    END = 5


class Place(IntEnum):
    """What an assertion asks for."""

    TEXT_BEGIN = 0
    TEXT_END = 1
    LINE_BEGIN = 2
    LINE_END = 3
    WORD_EDGE = 4
    NO_WORD_EDGE = 5


class Step(NamedTuple):
    """One step; which of the rest it has depends on what it does."""

    op: Op
    accepts: CharClass | str = ""
    first: int = 1
    """How far to go from here: where a jump goes, and a fork at first."""
    second: int = 1
    number: int = 0
    """The place of an assertion; of a mark, twice its group, and one more at its end."""


Program = list[Step]
UNBOUNDED = -1


class TooLargeError(Exception):
    """The program would have more than STEPS_MAX steps, or take too long to make."""


def check_size(size: int) -> None:
    """Raises TooLargeError."""
    if size > STEPS_MAX:
        raise TooLargeError


def _fork(first: int, second: int, *, is_greedy: bool) -> Step:
    return (
        Step(Op.FORK, first=first, second=second)
        if is_greedy
        else Step(Op.FORK, first=second, second=first)
    )


def repeat(program: Program, least: int, most: int, *, is_greedy: bool) -> Program:
    """The program from `least` to `most` times; UNBOUNDED is no bound. Raises TooLargeError."""
    size = len(program)
    check_size((size + 1) * max(least, most) + 2)
    if most == UNBOUNDED and least == 0:
        fork = _fork(1, size + 2, is_greedy=is_greedy)
        return [fork, *program, Step(Op.JUMP, first=-size - 1)]
    if most == UNBOUNDED:
        # `x+` goes back to its begin.
        return [*program * least, _fork(-size, 1, is_greedy=is_greedy)]
    joined = program * least
    for left in range(most - least, 0, -1):
        joined.append(_fork(1, left * (size + 1), is_greedy=is_greedy))
        joined += program
    return joined


def either(branches: list[Program]) -> Program:
    """One of the programs, the first ones preferred. Raises TooLargeError."""
    merged = _merge(branches)
    size = sum(len(each) + 2 for each in merged) - 2
    check_size(size)
    joined: Program = []
    for each in merged[:-1]:
        joined.append(Step(Op.FORK, first=1, second=len(each) + 2))
        joined += each
        joined.append(Step(Op.JUMP, first=size - len(joined)))
    return joined + merged[-1]


def _merge(branches: list[Program]) -> list[Program]:
    """Neighbours that accept one character each become one class."""
    merged: list[Program] = []
    singles: list[CharClass | str] = []
    for each in [*branches, []]:
        if len(each) == 1 and each[0].op is Op.CHARACTER:
            singles.append(each[0].accepts)
            continue
        if singles:
            merged.append([Step(Op.CHARACTER, _union(singles))])
            singles = []
        merged.append(each)
    return merged[:-1]


def _union(accepted: list[CharClass | str]) -> CharClass | str:
    characters = frozenset(each for each in accepted if isinstance(each, str))
    classes = [each for each in accepted if isinstance(each, CharClass)]
    if not classes and len(characters) == 1:
        return next(iter(characters))
    if characters:
        classes.insert(0, CharClass([characters.__contains__]))
    return CharClass.union(classes)
