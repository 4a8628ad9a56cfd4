"""A pattern has bounds in size and depth, and no text makes it take long."""

import subprocess
import sys
from typing import SupportsIndex

import pytest

from tierlog.clients.linear_regex import (
    MAX_PATTERN_BYTES,
    InvalidRegexError,
    Pattern,
    compile_pattern,
)
from tierlog.clients.patterns.matcher import KEPT_MAX, Matcher
from tierlog.clients.patterns.parser import Parser
from tierlog.clients.patterns.program import STEPS_MAX

AB = "ab" * 124


def steps_of(pattern: Pattern, text: str) -> list[int]:
    """What each small step of a match has followed."""
    return list(pattern.matching(text))


@pytest.mark.parametrize(
    "text",
    [
        "((((a{10}){10}){10}){10}){10}",
        ".{999}" * 40,
        "(" * 1001 + ")" * 1001,
        "a*" * 16_000,
        "(?:a{1000}|b{1000}){1000}",
    ],
)
def test_a_pattern_that_is_too_large_is_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidRegexError, match="takes too much memory"):
        compile_pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + ")" * 1000,
        "a" + "|a" * (MAX_PATTERN_BYTES // 2),
        r"\Q" + "a" * (MAX_PATTERN_BYTES - 2),
        "(a{100}){100}",
        r"(?i)\pL{1000}",
    ],
)
def test_a_large_pattern_is_taken(text: str) -> None:
    assert not compile_pattern(text).matches("b-")


@pytest.mark.parametrize("text", ["(a+)+b", "(a|aa)+b", "(a*)*b", "(a|b|ab)*c", "(x+x+)+y"])
def test_what_hangs_a_backtracking_engine_is_decided_at_once(text: str) -> None:
    pattern = compile_pattern(text)
    assert not pattern.matches("a" * 5000)
    assert not pattern.matches("x" * 5000)
    # After the first letters, nothing is new: where they lead is known.
    assert sum(steps_of(pattern, "a" * 10_000)) == 0


def test_a_step_is_no_larger_than_the_program_whatever_the_text() -> None:
    pattern = compile_pattern("(?:a|b)*a(?:a|b){240}")
    steps = steps_of(pattern, AB)
    assert len(steps) <= len(AB)
    assert max(steps) <= STEPS_MAX
    assert sum(steps_of(compile_pattern("(?:a?){1000}"), AB)) < 1000 * len(AB)


@pytest.mark.parametrize(
    "text",
    [
        # Hundreds of steps lead from each letter to the next one, and to the end.
        "(?:(?:b?){100}[^!])*(?:b?){100}",
        # A letter is compared with hundreds of others.
        "(?i)(?:[^" + "0-9" * 100 + "])*",
    ],
)
def test_all_that_is_looked_at_counts_as_work(text: str) -> None:
    steps = steps_of(compile_pattern(text), "cdefgh")
    assert len(steps) >= 6
    assert min(steps[:6]) >= 100
    assert not steps_of(compile_pattern("a*"), "")[1:]


def test_where_a_text_ends_is_looked_at_once() -> None:
    pattern = compile_pattern("a*(?:b?){100}")
    assert sum(steps_of(pattern, "aa")) > 100
    assert sum(steps_of(pattern, "aaaa")) == 0


@pytest.mark.parametrize("branch", [".", "[^a]", "[^a]|[b-c]", r"\D|[[:^digit:]]"])
def test_any_number_of_branches_may_be_one_class(branch: str) -> None:
    pattern = compile_pattern("|".join([branch] * 1000))
    assert pattern.matches("b")
    assert not pattern.matches("bb")
    assert not compile_pattern("|".join([branch] * 1000)).matches("")


def test_what_is_written_only_to_be_dropped_is_bounded() -> None:
    for text in ("(?:(a{1000}){30}){0}" * 1500, "(" * 990 + "(a{1000}){30}" + ")" * 990):
        with pytest.raises(InvalidRegexError, match="takes too much memory"):
            compile_pattern(text)


@pytest.mark.parametrize("begin", ["[", r"[\pL", r"[^-"])
def test_a_number_without_its_brace_is_refused_rather_than_read_for_ever(begin: str) -> None:
    """Searching from the begin again, this once grew a class until the memory was full."""
    with pytest.raises(InvalidRegexError, match="invalid escape sequence"):
        compile_pattern(begin + r"\x{41a")


class Searched(str):
    """A text that counts how many of its characters searches may have looked at."""

    __slots__ = ("looked_at",)
    looked_at: int

    def find(
        self, sub: str, start: SupportsIndex | None = 0, end: SupportsIndex | None = None, /
    ) -> int:
        assert start is not None
        self.looked_at += len(self) - start.__index__()
        return super().find(sub, start, end)


@pytest.mark.parametrize("text", ["[ab]?" * 6000, "[" + "[:" * 15_000 + "a]"])
def test_names_of_classes_are_searched_only_where_one_can_be(text: str) -> None:
    searched = Searched(text)
    searched.looked_at = 0
    Parser(searched, captures=False).program()
    assert searched.looked_at <= len(text)


def test_what_is_kept_of_texts_is_bounded() -> None:
    matcher = Matcher(Parser("(?:a|b)*a(?:a|b){100}", captures=False).program())
    for number in range(200):
        text = f"{number * 0x9E3779B97F4A7C15 % (1 << 120):0120b}".translate({48: "a", 49: "b"})
        assert matcher.accepts(text) is (text[-101] == "a")
        assert matcher.kept_size <= KEPT_MAX + 1000


def test_a_start_does_not_import_the_engine() -> None:
    modules = "tierlog.coordinator.consumer.topic_regex, tierlog.broker.broker"
    program = f"import sys, {modules}; sys.exit('tierlog.clients.patterns.parser' in sys.modules)"
    path = ":".join(sys.path)
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": path})
