"""Google's RE2, with types: what our patterns are compared to."""

from typing import Protocol, cast

import re2 as untyped


class Found(Protocol):
    """A match."""

    def groups(self) -> tuple[str | None, ...]: ...

    def group(self) -> str: ...


class Compiled(Protocol):
    """A pattern."""

    def fullmatch(self, text: str) -> Found | None: ...

    def findall(self, text: str) -> list[str]: ...


class _Options(Protocol):
    log_errors: bool


class _Library(Protocol):
    error: type[Exception]

    def Options(self) -> _Options: ...

    def compile(self, pattern: str, options: _Options) -> Compiled: ...


def compiled(pattern: str) -> Compiled:
    """Compile a pattern. Raises ValueError."""
    library = cast("_Library", untyped)
    options = library.Options()
    options.log_errors = False
    try:
        return library.compile(pattern, options)
    except library.error as error:
        raise ValueError(str(error)) from error
