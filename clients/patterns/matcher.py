"""Runs programs over texts, in time linear in the text.

Whether a program accepts a whole text is found by following all of its paths at once: what is known
after each character is the set of the steps at which they stand. Sets that were met, and where a
character leads from them, are kept, as in a deterministic automaton that is made as it is needed;
most texts take one look-up a character. The cache is bounded, and is emptied when it is full.

What the groups capture is found by trying the paths in the order of preference, each step at each
position once.
"""

from collections.abc import Generator, Sequence
from enum import IntEnum

from .characters import CharClass, is_word
from .program import Op, Place, Program, Step

KEPT_MAX = 50_000
"""How many steps and transitions the kept sets have before they are forgotten."""
_STEPS_OF_A_TEST = 4
"""A test of a class takes about as long as so many steps, one in any case longer still."""


class _Side(IntEnum):
    """What stands on one side of a position."""

    NOTHING = 0
    NEWLINE = 1
    WORD = 2
    OTHER = 3


def _side(character: str) -> _Side:
    if is_word(character):
        return _Side.WORD
    return _Side.NEWLINE if character == "\n" else _Side.OTHER


def _holds(place: int, before: _Side, behind: _Side) -> bool:
    match place:
        case Place.TEXT_BEGIN:
            return before is _Side.NOTHING
        case Place.TEXT_END:
            return behind is _Side.NOTHING
        case Place.LINE_BEGIN:
            return before in (_Side.NOTHING, _Side.NEWLINE)
        case Place.LINE_END:
            return behind in (_Side.NOTHING, _Side.NEWLINE)
        case _:
            is_edge = (before is _Side.WORD) is not (behind is _Side.WORD)
            return is_edge is (place == Place.WORD_EDGE)


class _Paths:
    """Where all paths stand between two characters."""

    __slots__ = ("before", "is_end", "leads_to", "steps")

    def __init__(self, steps: frozenset[int], before: _Side) -> None:
        self.steps = steps
        self.before = before
        self.leads_to: dict[str, _Paths] = {}
        self.is_end: bool | None = None
        """Whether a text may end here; None until a text did."""


class Matcher:
    """One program, and what was met while it ran."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._has_places = any(step.op is Op.ASSERT for step in program)
        self._kept: dict[tuple[frozenset[int], _Side], _Paths] = {}
        self.kept_size = 0
        """The steps and transitions of the sets that are kept."""
        self._first = self._paths(frozenset((0,)), _Side.NOTHING)

    def accepts(self, text: str) -> bool:
        """Whether the program accepts the whole text."""
        steps = self.accepting(text)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    def accepting(self, text: str) -> Generator[int, None, bool]:
        """The same in small steps; each gives how many of the program's it has followed.

        A test of a class counts as several.
        """
        paths = self._first
        for character in text:
            following = paths.leads_to.get(character)
            if following is None:
                following, work = self._follow(paths, character)
                yield work
            if not following.steps:
                return False
            paths = following
        if paths.is_end is None:
            reached, work = self._reachable(paths, _Side.NOTHING)
            paths.is_end = any(self._program[at].op is Op.END for at in reached)
            yield work
        return paths.is_end

    def _paths(self, steps: frozenset[int], before: _Side) -> _Paths:
        key = (steps, before if self._has_places else _Side.OTHER)
        paths = self._kept.get(key)
        if paths is None:
            if self.kept_size > KEPT_MAX:
                self._kept.clear()
                self.kept_size = 0
                self._first = _Paths(frozenset((0,)), _Side.NOTHING)
            paths = self._kept[key] = _Paths(steps, before)
            self.kept_size += len(steps) + 1
        return paths

    def _follow(self, paths: _Paths, character: str) -> tuple[_Paths, int]:
        """Where the paths stand after this character, and how much work that was."""
        program = self._program
        accepted: dict[int, bool] = {}
        steps: set[int] = set()
        reached, work = self._reachable(paths, _side(character))
        for at in reached:
            accepts = program[at].accepts
            if isinstance(accepts, CharClass):
                is_accepted = accepted.get(id(accepts))
                if is_accepted is None:
                    is_accepted = accepted[id(accepts)] = character in accepts
                    work += _STEPS_OF_A_TEST * accepts.test_count
                if is_accepted:
                    steps.add(at + 1)
            elif accepts == character:
                steps.add(at + 1)
        following = self._paths(frozenset(steps), _side(character))
        paths.leads_to[character] = following
        self.kept_size += 1
        return following, work

    def _reachable(self, paths: _Paths, behind: _Side) -> tuple[list[int], int]:
        """The steps that accept a character, or the end, and how many lead there without one."""
        program, before = self._program, paths.before
        reached: list[int] = []
        waiting = list(paths.steps)
        seen = set(paths.steps)
        while waiting:
            at = waiting.pop()
            op, _, first, second, number = program[at]
            if op is Op.CHARACTER or op is Op.END:
                reached.append(at)
                continue
            if op is Op.ASSERT and not _holds(number, before, behind):
                continue
            for following in {at + first, at + second} if op is Op.FORK else (at + first,):
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return reached, len(seen)


def capture(program: Program, group_count: int, text: str) -> Sequence[str] | None:
    """What each group captures of a text that is accepted whole, "" for one without a part."""
    sides = [_Side.NOTHING, *map(_side, text), _Side.NOTHING]
    tried: set[int] = set()
    waiting: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, (-1,) * (2 * group_count + 2))]
    while waiting:
        at, position, marks = waiting.pop()
        key = at * len(sides) + position
        if key in tried:
            continue
        tried.add(key)
        step = program[at]
        if step.op is Op.END:
            if position == len(text):
                return [text[a:b] for a, b in zip(marks[2::2], marks[3::2], strict=True)]
        elif step.op is Op.CHARACTER:
            if position < len(text) and _is_accepted(step, text[position]):
                waiting.append((at + 1, position + 1, marks))
        elif step.op is Op.MARK:
            marked = (*marks[: step.number], position, *marks[step.number + 1 :])
            waiting.append((at + 1, position, marked))
        elif step.op is not Op.ASSERT or _holds(step.number, sides[position], sides[position + 1]):
            if step.op is Op.FORK:
                waiting.append((at + step.second, position, marks))
            waiting.append((at + step.first, position, marks))
    return None


def _is_accepted(step: Step, character: str) -> bool:
    accepts = step.accepts
    return character in accepts if isinstance(accepts, CharClass) else character == accepts
