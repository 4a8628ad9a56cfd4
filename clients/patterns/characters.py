"""Which characters a part of a pattern stands for: literals, classes, Unicode's groups, any case.

A class is a list of tests of one character, and may be negated as a whole. Without regard to case,
a character passes a test if one of those does that differ from it in case alone, as `k`, `K` and
the sign for Kelvin do.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from functools import cache

Test = Callable[[str], bool]

CATEGORIES = frozenset(
    letter + each
    for letter, following in {
        "C": "cfos",
        "L": "lmotu",
        "M": "cen",
        "N": "dlo",
        "P": "cdefios",
        "S": "ckmo",
        "Z": "lps",
    }.items()
    for each in ("", *following)
)
_LAST_WITH_CASE = 0x1E943
_DOTLESS = "\u0131"
"""Its upper case is the I of ASCII, but it is no lower case of that but in Turkish."""

_BEYOND_ASCII = {"k": "\u212a", "s": "\u017f"}
"""The sign for Kelvin, and the long s."""

_DIGIT = "09"
_WORD = "09AZ__az"
ASCII_GROUPS = {
    r"\d": _DIGIT,
    r"\s": "\t\n\f\r  ",
    r"\w": _WORD,
    "[:alnum:]": "09AZaz",
    "[:alpha:]": "AZaz",
    "[:ascii:]": "\0\x7f",
    "[:blank:]": "\t\t  ",
    "[:cntrl:]": "\0\x1f\x7f\x7f",
    "[:digit:]": _DIGIT,
    "[:graph:]": "!~",
    "[:lower:]": "az",
    "[:print:]": " ~",
    "[:punct:]": "!/:@[`{~",
    "[:space:]": "\t\r  ",
    "[:upper:]": "AZ",
    "[:word:]": _WORD,
    "[:xdigit:]": "09AFaf",
}
"""The first and the last character of each range, one after the other."""


def is_word(character: str) -> bool:
    """Whether `\\b` takes it for a part of a word: a letter or digit of ASCII, or `_`."""
    return character == "_" or (character.isascii() and character.isalnum())


class CharClass:
    """The characters that one step of a pattern accepts."""

    __slots__ = ("_is_negated", "_tests", "test_count")

    def __init__(
        self, tests: list[Test], *, is_negated: bool = False, test_count: int | None = None
    ) -> None:
        self._tests = tests
        self._is_negated = is_negated
        self.test_count = len(tests) if test_count is None else test_count
        """How many tests a character takes at most."""

    def __contains__(self, character: str) -> bool:
        return any(test(character) for test in self._tests) is not self._is_negated

    @staticmethod
    def union(classes: "list[CharClass]") -> "CharClass":
        """A class of the characters of all of these."""
        tests: list[Test] = []
        for char_class in classes:
            # The tests themselves where they serve: unions of unions are no deeper than one.
            tests += [char_class.__contains__] if char_class._is_negated else char_class._tests
        return CharClass(tests, test_count=sum(char_class.test_count for char_class in classes))


ANY = CharClass([], is_negated=True)
ANY_BUT_NEWLINE = CharClass(["\n".__eq__], is_negated=True)


def within(ranges: str) -> Test:
    """A test for characters of these ranges, given as in `ASCII_GROUPS`."""
    if len(ranges) == 2:
        first, last = ranges[0], ranges[1]
        return first.__eq__ if first == last else lambda character: first <= character <= last
    return lambda character: any(
        ranges[at] <= character <= ranges[at + 1] for at in range(0, len(ranges), 2)
    )


def without(test: Test) -> Test:
    """The opposite of a test."""
    return lambda character: not test(character)


def in_any_case(test: Test) -> Test:
    """A test that a character passes if one does that differs in case alone."""
    return lambda character: any(map(test, cases_of(character)))


def literal(character: str, *, in_any_case: bool) -> CharClass | str:
    """What accepts a character, as itself where nothing differs from it in case alone."""
    cases = cases_of(character) if in_any_case else ""
    return CharClass([cases.__contains__]) if len(cases) > 1 else character


def group_named(name: str) -> Test | None:
    """The test of `\\p{name}`: a general category or a script; None if there is none."""
    if name == "Any":
        return lambda _: True
    if name in CATEGORIES:
        # What is not assigned (Cn) belongs to no group.
        return lambda character: (
            (category := unicodedata.category(character)).startswith(name) and category != "Cn"
        )
    # Imported only when needed: few patterns name one.
    from .scripts import SCRIPTS

    packed = SCRIPTS.get(name)
    return None if packed is None else _script(packed)


@cache
def _script(packed: str) -> Test:
    firsts: list[int] = []
    lasts: list[int] = []
    end = 0
    for part in packed.split():
        gap, _, more = part.partition("+")
        firsts.append(end + int(gap, 16))
        end = firsts[-1] + int(more or "0", 16)
        lasts.append(end)

    def test(character: str) -> bool:
        at = bisect_right(firsts, ord(character)) - 1
        return at >= 0 and ord(character) <= lasts[at]

    return test


def cases_of(character: str) -> str:
    """The characters that differ in case alone, itself included."""
    if character.isascii():
        if not character.isalpha():
            return character
        lower = character.lower()
        return lower + character.upper() + _BEYOND_ASCII.get(lower, "")
    return _cases().get(_fold(character), character)


@cache
def _cases() -> dict[str, str]:
    """By what it folds to: characters that differ in case alone. Built once, in some 50 ms."""
    cases: dict[str, str] = {}
    for each in map(chr, range(_LAST_WITH_CASE + 1)):
        if each.upper() != each or each.lower() != each:
            folded = _fold(each)
            cases[folded] = cases.get(folded, "") + each
    return cases


def _fold(character: str) -> str:
    """The same for all characters that differ in case alone, as Unicode's simple case folding."""
    if character == _DOTLESS:
        return character
    upper = character.upper()
    lower = (upper if len(upper) == 1 else character).lower()
    return lower if len(lower) == 1 else character
