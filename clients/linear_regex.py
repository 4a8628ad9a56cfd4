"""Regular expressions that match in time linear in the text: Google's RE2.

Clients send patterns, and Python's `re` can take exponential time to match one, which would block
the whole broker. RE2 omits the features that need backtracking (docs/decisions/005). The library is
loaded when the first pattern is compiled, so that it does not slow down startup.

Limits: a pattern has at most 32,767 bytes, and its compiled programs must fit into half a mebibyte,
which is enough for a few thousand characters and alternatives.
"""

from typing import Protocol, cast

MAX_PATTERN_BYTES = 32_767
MAX_PROGRAM_BYTES = 512 * 1024


class InvalidRegexError(ValueError):
    """The pattern is too long, or RE2 does not accept it; the message is the reason."""


class NoLibraryError(InvalidRegexError):
    """google-re2 is not installed; the message says so, and what to do."""


class _Match(Protocol):
    def groups(self) -> tuple[str | None, ...]: ...


class _Compiled(Protocol):
    @property
    def groups(self) -> int: ...

    def fullmatch(self, text: str) -> _Match | None: ...


class _Options(Protocol):
    log_errors: bool
    never_capture: bool
    max_mem: int


class _Library(Protocol):
    """The part of the module `re2` that is used here; the module has no type annotations."""

    error: type[Exception]

    def Options(self) -> _Options: ...

    def compile(self, pattern: str, options: _Options) -> _Compiled: ...


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled: _Compiled) -> None:
        self._compiled = compiled

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole of `text`."""
        return self._compiled.fullmatch(text) is not None

    @property
    def group_count(self) -> int:
        """How many groups the pattern captures, if it was compiled to capture."""
        return self._compiled.groups

    def groups(self, text: str) -> tuple[str, ...] | None:
        """What the groups capture of `text`, "" for one without a part; None without a match."""
        match = self._compiled.fullmatch(text)
        return None if match is None else tuple(each or "" for each in match.groups())


def compile_pattern(text: str, *, captures: bool = False) -> Pattern:
    """Compile a pattern, with groups only if it `captures`.

    Raises InvalidRegexError, which is NoLibraryError without the library.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRegexError("invalid UTF-8") from error
    if size > MAX_PATTERN_BYTES:
        raise InvalidRegexError("the expression is too long")
    try:
        import re2 as untyped
    except ImportError as error:
        raise NoLibraryError(
            "this broker matches no patterns, for the package google-re2 is not installed there;"
            " install it, or name the topics"
        ) from error
    library = cast("_Library", untyped)
    options = library.Options()
    options.log_errors = False
    options.never_capture = not captures
    options.max_mem = MAX_PROGRAM_BYTES
    try:
        return Pattern(library.compile(text, options))
    except library.error as error:
        raise InvalidRegexError(_reason(error)) from error


def _reason(error: Exception) -> str:
    said = error.args[0]
    sentence = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    # RE2's message is "reason: part of the pattern"; drop that part, which may contain anything.
    return sentence.partition(": ")[0]
