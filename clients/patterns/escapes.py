"""Reads the parts of a pattern that stand for one character: escapes and classes."""

from typing import NamedTuple

from .characters import (
    ASCII_GROUPS,
    CharClass,
    Test,
    group_named,
    in_any_case,
    within,
    without,
)

_LAST_CHARACTER = 0x10FFFF
_OCTAL = "01234567"
_HEXADECIMAL = "0123456789abcdefABCDEF"
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class SyntaxRefusedError(Exception):
    """The pattern is not of the language; the message is RE2/J's reason."""


class Flags(NamedTuple):
    """What `(?imsU)` sets, each under its letter."""

    i: bool = False
    """Upper case and lower case are the same."""
    m: bool = False
    """`^` and `$` stand for begin and end of a line, too."""
    s: bool = False
    """`.` is any character, also a newline."""
    U: bool = False
    """Repetitions are as short as can be, unless a `?` follows."""


class Escapes:
    """A pattern, and how far it is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._last_name_end = text.rfind(":]")
        """Found once: a class may have thousands of `[:`, each without an end."""
        self._flags = Flags()

    def _next(self, reason: str) -> str:
        """The next character. Raises SyntaxRefusedError with this reason at the end."""
        if self._at == len(self._text):
            raise SyntaxRefusedError(reason)
        self._at += 1
        return self._text[self._at - 1]

    def _ahead(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _cased(self, test: Test) -> Test:
        return in_any_case(test) if self._flags.i else test

    def _escaped_character(self) -> str:
        """The character for which an escape stands, of which `\\` is read."""
        character = self._next("trailing backslash at end of expression")
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "x":
            return self._hexadecimal()
        if character in _OCTAL and (character == "0" or self._is_octal_ahead()):
            digits = character
            while len(digits) < 3 and self._is_octal_ahead():
                digits += self._next("")
            return chr(int(digits, 8))
        if character.isascii() and character.isalnum():
            raise SyntaxRefusedError("invalid escape sequence")
        return character

    def _is_octal_ahead(self) -> bool:
        return self._at < len(self._text) and self._text[self._at] in _OCTAL

    def _hexadecimal(self) -> str:
        reason = "invalid escape sequence"
        digits = self._next(reason)
        if digits == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise SyntaxRefusedError(reason)
            digits = self._text[self._at : end].lstrip("0") or "0" * (end > self._at)
            self._at = end + 1
        else:
            digits += self._next(reason)
        # No number is larger that has more digits.
        if not 0 < len(digits) <= 6 or not all(digit in _HEXADECIMAL for digit in digits):
            raise SyntaxRefusedError(reason)
        code = int(digits, 16)
        if code > _LAST_CHARACTER:
            raise SyntaxRefusedError(reason)
        return chr(code)

    def _group_escape(self) -> Test | None:
        """`\\d` and its like, and Unicode's groups; None, and nothing is read, if none is ahead."""
        name = self._text[self._at : self._at + 2]
        if name.lower() == r"\p":
            self._at += 2
            return self._unicode_group(is_negated=name == r"\P")
        ranges = ASCII_GROUPS.get(name.lower()) if name.startswith("\\") else None
        if ranges is None:
            return None
        self._at += 2
        test = self._cased(within(ranges))
        return test if name.islower() else without(test)

    def _unicode_group(self, *, is_negated: bool) -> Test:
        reason = "invalid character class range"
        name = self._next(reason)
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise SyntaxRefusedError(reason)
            name, self._at = self._text[self._at : end], end + 1
        if name.startswith("^"):
            name, is_negated = name[1:], not is_negated
        test = group_named(name)
        if test is None:
            raise SyntaxRefusedError(reason)
        test = self._cased(test)
        return without(test) if is_negated else test

    def _named_class(self) -> Test | None:
        """`[:alnum:]` and its like inside of a class; None, and nothing is read, if none is."""
        if not self._ahead("[:") or self._last_name_end < self._at:
            return None
        end = self._text.find(":]", self._at)
        name = self._text[self._at : end + 2]
        self._at = end + 2
        is_negated = name.startswith("[:^")
        ranges = ASCII_GROUPS.get("[:" + name[3:] if is_negated else name)
        if ranges is None:
            raise SyntaxRefusedError("invalid character class range")
        test = self._cased(within(ranges))
        return without(test) if is_negated else test

    def _char_class(self) -> CharClass:
        """A class, of which `[` is read."""
        is_negated = self._ahead("^")
        self._at += is_negated
        tests: list[Test] = []
        is_first = True
        while is_first or not self._ahead("]"):
            is_first = False
            test = self._named_class() or self._group_escape()
            tests.append(test if test is not None else self._cased(within(self._range())))
        self._at += 1
        return CharClass(tests, is_negated=is_negated)

    def _range(self) -> str:
        first = last = self._class_character()
        if self._ahead("-") and not self._ahead("-]"):
            self._at += 1
            last = self._class_character()
            if last < first:
                raise SyntaxRefusedError("invalid character class range")
        return first + last

    def _class_character(self) -> str:
        character = self._next("missing closing ]")
        return self._escaped_character() if character == "\\" else character
