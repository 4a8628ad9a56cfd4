"""Reads the language of RE2, as RE2/J does, into a program.

RE2/J is what Apache Kafka has: what it refuses is refused, with its words. Further bounds are ours:
the depth of groups, and the size of the program.
"""

import re
from dataclasses import dataclass, field

from .characters import ANY, ANY_BUT_NEWLINE, CharClass, literal
from .escapes import Escapes, Flags, SyntaxRefusedError
from .program import (
    UNBOUNDED,
    WRITTEN_MAX,
    Op,
    Place,
    Program,
    Step,
    TooLargeError,
    check_size,
    either,
    repeat,
)

DEPTH_MAX = 1000
_TIMES_MAX = 1000
_TIMES = re.compile(r"(0|[1-9][0-9]*)(,?)(0|[1-9][0-9]*)?\}")
_SIGNS = {"*": (0, UNBOUNDED), "+": (1, UNBOUNDED), "?": (0, 1)}
_PLACES = {
    "A": Place.TEXT_BEGIN,
    "z": Place.TEXT_END,
    "b": Place.WORD_EDGE,
    "B": Place.NO_WORD_EDGE,
}
_NAME = re.compile(r"[0-9A-Za-z_]+")


@dataclass(slots=True)
class _Group:
    """A group that is open: what is read of it so far."""

    flags: Flags
    """Those before the group, which are valid again behind it."""
    number: int = 0
    """0 for one that captures nothing."""
    branches: list[Program] = field(default_factory=list[Program])
    items: list[Program] = field(default_factory=list[Program])
    """Of the branch that is being read; a repetition is one of its last item."""
    size: int = 0

    def add(self, program: Program) -> None:
        self.items.append(program)
        self.size += len(program)
        check_size(self.size)

    def end_branch(self) -> None:
        self.branches.append([step for item in self.items for step in item])
        self.items = []


class Parser(Escapes):
    """Reads one pattern."""

    def __init__(self, text: str, *, captures: bool) -> None:
        """Without `captures`, groups leave no marks."""
        super().__init__(text)
        self._captures = captures
        self._open = [_Group(self._flags)]
        self._names: set[str] = set()
        self._is_repeated = False
        """Whether what was read last is a repetition, which has none of its own."""
        self._written = 0
        """How many steps were written for groups and repetitions."""
        self.group_count = 0

    def program(self) -> Program:
        """Read all. Raises SyntaxRefusedError, TooLargeError."""
        while self._at < len(self._text):
            self._read()
        if len(self._open) > 1:
            raise SyntaxRefusedError("missing closing )")
        group = self._open[0]
        group.end_branch()
        return [*either(group.branches), Step(Op.END)]

    def _read(self) -> None:
        character = self._next("")
        was_repeated, self._is_repeated = self._is_repeated, False
        match character:
            case "(":
                self._open_group()
            case "|":
                self._open[-1].end_branch()
            case ")":
                self._close_group()
            case "^":
                self._add_place(Place.LINE_BEGIN if self._flags.m else Place.TEXT_BEGIN)
            case "$":
                self._add_place(Place.LINE_END if self._flags.m else Place.TEXT_END)
            case ".":
                self._add(ANY if self._flags.s else ANY_BUT_NEWLINE)
            case "[":
                self._add(self._char_class())
            case "*" | "+" | "?" | "{":
                self._repeat(character, was_repeated)
            case "\\":
                self._escape()
            case _:
                self._add_literal(character)

    def _add_made(self, program: Program) -> None:
        """Add what was made of other programs. Each time that costs their steps again."""
        self._written += len(program)
        if self._written > WRITTEN_MAX:
            raise TooLargeError
        self._open[-1].add(program)

    def _add(self, accepted: CharClass | str) -> None:
        self._open[-1].add([Step(Op.CHARACTER, accepted)])

    def _add_place(self, place: Place) -> None:
        self._open[-1].add([Step(Op.ASSERT, number=place)])

    def _add_literal(self, character: str) -> None:
        self._add(literal(character, in_any_case=self._flags.i))

    def _escape(self) -> None:
        ahead = self._text[self._at : self._at + 1]
        if ahead in _PLACES:
            self._at += 1
            self._add_place(_PLACES[ahead])
        elif ahead == "Q":
            quoted, _, _ = self._text[self._at + 1 :].partition(r"\E")
            for character in quoted:
                self._add_literal(character)
            self._at = min(self._at + len(quoted) + 3, len(self._text))
        else:
            self._at -= 1
            test = self._group_escape()
            if test is not None:
                self._add(CharClass([test]))
            else:
                self._at += 1
                self._add_literal(self._escaped_character())

    # Groups.

    def _open_group(self) -> None:
        flags, captures = self._flags, True
        if self._ahead("?P<") or self._ahead("?<"):
            self._name()
        elif self._ahead("?"):
            captures = False
            if not self._new_flags():
                return
        if len(self._open) > DEPTH_MAX:
            raise TooLargeError
        self.group_count += captures
        self._open.append(_Group(flags, self.group_count if captures and self._captures else 0))

    def _name(self) -> None:
        begin = self._text.index("<", self._at) + 1
        end = self._text.find(">", begin)
        name = self._text[begin:end]
        if end < 0 or _NAME.fullmatch(name) is None:
            raise SyntaxRefusedError("invalid named capture")
        if name in self._names:
            raise SyntaxRefusedError("duplicate capture group name")
        self._names.add(name)
        self._at = end + 1

    def _new_flags(self) -> bool:
        """Read what follows `(`; whether a group begins."""
        self._at += 1
        flags, value, is_stated = self._flags, True, False
        while self._at < len(self._text):
            character = self._next("")
            if character in Flags._fields:
                flags, is_stated = flags._replace(**{character: value}), True
            elif character == "-" and value:
                value = is_stated = False
            elif character in ":)" and (value or is_stated):
                self._flags = flags
                return character == ":"
            else:
                break
        raise SyntaxRefusedError("invalid or unsupported Perl syntax")

    def _close_group(self) -> None:
        if len(self._open) == 1:
            # RE2/J's words for a parenthesis that was not opened.
            raise SyntaxRefusedError("regexp/syntax: internal error")
        group = self._open.pop()
        group.end_branch()
        program = either(group.branches)
        if group.number:
            begin = Step(Op.MARK, number=2 * group.number)
            program = [begin, *program, begin._replace(number=begin.number + 1)]
        self._flags = group.flags
        self._add_made(program)

    # Repetitions.

    def _repeat(self, sign: str, was_repeated: bool) -> None:
        times = self._bounds() if sign == "{" else _SIGNS[sign]
        if times is None:
            self._add_literal(sign)
            # RE2/J takes it for a repetition here: none may follow.
            self._is_repeated = True
            return
        is_greedy = not self._flags.U
        if self._ahead("?"):
            self._at += 1
            is_greedy = not is_greedy
        if was_repeated:
            raise SyntaxRefusedError("invalid nested repetition operator")
        group = self._open[-1]
        if not group.items:
            raise SyntaxRefusedError("missing argument to repetition operator")
        item = group.items.pop()
        group.size -= len(item)
        self._add_made(repeat(item, *times, is_greedy=is_greedy))
        self._is_repeated = True

    def _bounds(self) -> tuple[int, int] | None:
        """The two bounds of `{2,5}`, of which `{` is read; None, and no more is read, if none."""
        match = _TIMES.match(self._text, self._at)
        if match is None or (match[3] and not match[2]):
            return None
        self._at = match.end()
        if max(len(match[1]), len(match[3] or "")) > len(str(_TIMES_MAX)):
            raise SyntaxRefusedError("invalid repeat count")
        least = int(match[1])
        most = int(match[3]) if match[3] else UNBOUNDED if match[2] else least
        if max(least, most) > _TIMES_MAX or UNBOUNDED != most < least:
            raise SyntaxRefusedError("invalid repeat count")
        return least, most
