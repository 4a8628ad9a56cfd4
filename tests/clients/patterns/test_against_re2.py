"""Patterns mean what they mean to Google's RE2, over random patterns, texts and all characters."""

import random

import pytest

from tierlog.clients.linear_regex import compile_pattern
from tierlog.clients.patterns.characters import ASCII_GROUPS, CATEGORIES, cases_of
from tierlog.clients.patterns.scripts import SCRIPTS
from tierlog.tests.clients.patterns.google_re2 import compiled
from tierlog.tests.clients.patterns.script_ranges import CHARACTERS, FILE, text_of

PIECES = (
    *("a", "b", "c", ".", "*", "+", "?", "|", "(", "(?:", ")", "[ab]", "[^a]", "[a-c_]", "-"),
    *("{1,2}", "{2}", "{0,}", "{", "*?", "+?", "^", "$", r"\b", r"\B", r"\A", r"\z", r"\."),
    *(r"\w", r"\D", r"\s", "[[:^alpha:]]", r"[\d_]", r"\pL", r"\P{Lu}", r"\p{Greek}", r"\x61"),
    *("(?i)", "(?s)", "(?m)", "(?-s)", "(?i:", "(?U)", "(?P<n>", r"\Qa.\E", "\n", "\u212a", "é"),
)
LETTERS = "abcABCkKsS _-.\n1éÉ\u212a\u017f\u03b1"
ROUNDS = 3000
REFUSED_BY_KAFKA_ALONE = (
    "duplicate capture group name",
    "invalid nested repetition operator",
)


def _is_refused_by_both(pattern: str) -> bool:
    refusals: list[str] = []
    for compiler in (compile_pattern, compiled):
        try:
            compiler(pattern)
        except ValueError as error:
            refusals.append(str(error))
    # RE2/J refuses a name that two groups have and a repetition of `{`, RE2 does not.
    assert len(refusals) != 1 or refusals[0] in REFUSED_BY_KAFKA_ALONE, (pattern, refusals)
    return bool(refusals)


@pytest.mark.parametrize("seed", range(4))
def test_random_patterns_match_and_capture_the_same(seed: int) -> None:
    chance = random.Random(seed)
    compared = 0
    for _ in range(ROUNDS):
        pattern = "".join(chance.choices(PIECES, k=chance.randint(1, 9)))
        if _is_refused_by_both(pattern):
            continue
        ours, theirs = compile_pattern(pattern, captures=True), compiled(pattern)
        for _ in range(10):
            text = "".join(chance.choices(LETTERS, k=chance.randint(0, 6)))
            found = theirs.fullmatch(text)
            groups = None if found is None else tuple(each or "" for each in found.groups())
            assert ours.matches(text) is (found is not None), (pattern, text)
            assert ours.groups(text) == groups, (pattern, text)
            compared += found is not None
    assert compared > 100


def test_what_differs_in_case_alone_is_the_same_letter_as_tocompiled() -> None:
    """Both know the cases of an edition of Unicode of their own: few letters are new in one."""
    cased = [each for each in CHARACTERS if each.lower() != each or each.upper() != each]
    text = "".join(cased)
    sample = [*cased[:400], *cased[400::9]]
    differing = [
        character
        for character in sample
        if set(cases_of(character)) != set(compiled("(?i)" + character).findall(text))
    ]
    assert len(differing) < len(sample) / 50, differing


@pytest.mark.parametrize("name", sorted(ASCII_GROUPS))
def test_groups_of_ascii_are_the_same(name: str) -> None:
    names = [name, name.upper() if name.startswith("\\") else name.replace("[:", "[:^")]
    for each in names:
        pattern = each if each.startswith("\\") else f"[{each}]"
        for flags in ("", "(?i)"):
            expected = compiled(flags + pattern)
            ours = compile_pattern(flags + pattern)
            for character in CHARACTERS[:0x180] + "\u212a":
                assert ours.matches(character) is bool(expected.fullmatch(character)), each


def test_general_categories_are_those_of_pythons_unicode() -> None:
    """Its edition differs from Python to Python, and from RE2's: new characters, few moved ones."""
    for name in sorted(CATEGORIES - {"Cs"}):
        pattern = compile_pattern(rf"\p{{{name}}}")
        theirs = set("".join(compiled(rf"\p{{{name}}}+").findall(CHARACTERS[:0x3000])))
        ours = {each for each in CHARACTERS[:0x3000] if pattern.matches(each)}
        assert len(ours ^ theirs) <= max(3, len(theirs) // 50), name


def test_scripts_are_those_ofcompiled() -> None:
    assert FILE.read_text("utf-8") == text_of(SCRIPTS)
    greek = compile_pattern(r"\p{Greek}+")
    assert greek.matches("αβγΩ")
    assert not greek.matches("abc")
