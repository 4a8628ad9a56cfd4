"""Regular expressions that match in time linear in the text, in the language of RE2.

Clients send patterns, and Python's `re` can take exponential time to match one, which would block
the whole broker. RE2's language omits what needs backtracking; Apache Kafka has RE2/J for it. The
engine is our own (`patterns/`, docs/decisions/005): what RE2's authors publish for Python has no
wheel for musl. It is imported when the first pattern is compiled.

Limits: a pattern has at most 32,767 bytes and a thousand groups in one another, and its program at
most 32,768 steps, which are about two for each of its characters, times its repetitions.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .patterns.program import Program

MAX_PATTERN_BYTES = 32_767


class InvalidRegexError(ValueError):
    """The pattern is too large, or not of the language; the message is the reason, as RE2/J's."""


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_matcher", "_program", "group_count", "size")

    def __init__(self, program: "Program", group_count: int) -> None:
        from .patterns.matcher import Matcher

        self._program = program
        self._matcher = Matcher(program)
        self.group_count = group_count
        """How many groups the pattern has."""
        self.size = len(program)
        """How many steps its program has."""

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole of `text`."""
        return self._matcher.accepts(text)

    def matching(self, text: str) -> Generator[int, None, bool]:
        """The same in small steps; each gives about how many of the program's it has followed."""
        return self._matcher.accepting(text)

    def groups(self, text: str) -> tuple[str, ...] | None:
        """What the groups capture of `text`, "" for one without a part; None without a match.

        The pattern must have been compiled to capture.
        """
        from .patterns.matcher import capture

        if not self.matches(text):
            return None
        parts = capture(self._program, self.group_count, text)
        return None if parts is None else tuple(parts)


def compile_pattern(text: str, *, captures: bool = False) -> Pattern:
    """Compile a pattern, with groups only if it `captures`. Raises InvalidRegexError."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRegexError("invalid UTF-8") from error
    if size > MAX_PATTERN_BYTES:
        raise InvalidRegexError("the expression is too long")
    from .patterns.escapes import SyntaxRefusedError
    from .patterns.parser import Parser
    from .patterns.program import TooLargeError

    parser = Parser(text, captures=captures)
    try:
        return Pattern(parser.program(), parser.group_count)
    except TooLargeError:
        raise InvalidRegexError("the expression takes too much memory") from None
    except SyntaxRefusedError as error:
        raise InvalidRegexError(str(error)) from None
