"""Subscribed patterns stand for the topics that they stand for in Apache Kafka."""

import json
import random

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.clients.patterns.characters import CATEGORIES
from tierlog.clients.patterns.scripts import SCRIPTS
from tierlog.coordinator.consumer.topic_regex import compile_regex
from tierlog.tests.conformance.java_programs import answers_of

pytestmark = pytest.mark.recorded

NAMES = ("abc", "ABC", "a", "aa", "orders.eu-1", "orders_us", "x-1.2", "_-_", "a.b", "b", "word")
PATTERNS = [
    *("", "abc", "a.*", ".*", "a|b", "orders[._].*", r"orders\..+", "^abc$", "(?i)abc", "a{2}"),
    *("a{0}", "{", "a{,2}", "a{1000}", "(?s).*", "(?m)^a$", "(?U)a+", "(?-s)a.", r"\Aabc\z"),
    *(r"\Qa.b\E", r"\bword\b", r"\w+", r"\d", r"[^\d]+", "[[:alpha:]]+", "[[:word:]]+", r"\pL+"),
    *(
        r"\p{Lu}+",
        r"\PL",
        "(?P<x>a)b?",
        "(?<x>a)b?",
        "(?:a|b)*",
        "a*?b?",
        r"\x61",
        r"\x{61}",
        "[a-c]+",
    ),
    *("(", ")", "a)", "[", "a**", "a++", "a?+", "a{1001}", "x{2,1}", "(?=a)", "(?!a)", "[a-c]+"),
    *(r"\1", r"\8", r"\Z", r"\h", r"[a-\d]", "[b-a]", "(?P=x)", "(?x)a", r"\pX", r"\p{Foo}", "*"),
    *(
        "(?P<x>a)(?P<x>b)",
        r"\C",
        "(?)",
        "(?-)",
        "(?i-s:A)",
        "(?-i-s)",
        "(?i",
        "(?",
        "(?P",
        "a(?i)*B",
    ),
    *(
        r"\Qa.b",
        r"\Q",
        r"\Qa\E*",
        r"\p",
        r"\pÄ",
        r"\p{",
        r"[\p{",
        "[\\",
        r"[a-",
        "[a-]",
        "[]a]",
        "[^]a]",
    ),
    *(
        "[[:alpha:]-z]",
        "[[:alpha",
        "[[:^word:]]",
        "a{01}",
        "a{1",
        "a{1,2",
        "a{99999999999}",
        "a{,}",
    ),
    *(
        r"\x{}",
        r"\x{0000000061}",
        r"\x6",
        r"\xg0",
        r"\141",
        r"\18",
        r"\0",
        r"\_",
        r"\é",
        "é",
        "(?i)É|k",
    ),
    *(
        "|",
        "a|",
        "|a",
        "(|a)*",
        "(a|b",
        "a|b)",
        "()",
        "(?:)*",
        "^*",
        "$+",
        r"\b+",
        "(?i)[^k]",
        r"(?i)\w",
    ),
    *("{*", "{{2}", "a{??", "{a*", "a*{", r"\{*"),
    *("+", "?", "a\\", "(?P<a", "(?P<>a)", "[[:foo:]]", r"\x{110000}", "(?i", "(?z)"),
]


def random_patterns(count: int) -> list[str]:
    """Pieces of the language put together, many of them badly."""
    chance = random.Random("topic patterns")
    pieces = ("a", "b", ".", "*", "+", "?", "|", "(", ")", "[ab]", "[^a]", "{1,2}", "-", r"\.", "^")
    return ["".join(chance.choices(pieces, k=chance.randint(1, 7))) for _ in range(count)]


def ours(pattern: str) -> str:
    try:
        compiled = compile_regex(pattern)
    except KafkaError as error:
        start = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: "
        return "bad " + error.message.removeprefix(start).removesuffix(".")
    return " ".join(str(compiled.matches(name)).lower() for name in NAMES)


def test_a_pattern_means_what_it_means_to_kafka_and_is_refused_in_its_words() -> None:
    patterns = [*PATTERNS, *random_patterns(600)]
    lines = ["\t".join([json.dumps(pattern), *NAMES]) for pattern in patterns]
    differing = {
        pattern: (found, expected)
        for pattern, expected in zip(patterns, answers_of("TopicRegex.java", lines), strict=True)
        if (found := ours(pattern)) != expected
    }
    assert differing == {}


def test_every_script_and_category_that_kafka_knows_is_known() -> None:
    names = sorted({*SCRIPTS, *CATEGORIES, "Any", "Klingon", "Cn", "^Lu", "", "greek", "LC"})
    patterns = [rf"\p{{{name}}}" for name in names]
    lines = ["\t".join([json.dumps(pattern), *NAMES]) for pattern in patterns]
    assert [ours(pattern) for pattern in patterns] == answers_of("TopicRegex.java", lines)


def test_only_the_size_of_a_pattern_is_bounded_otherwise() -> None:
    """See docs/decisions/005."""
    patterns = ["(a{100}){100}", "(a{1000}){100}", "(" * 1001 + ")" * 1001]
    lines = [json.dumps(pattern) + "\ta" for pattern in patterns]
    answers = answers_of("TopicRegex.java", lines)
    assert [line.startswith("bad") for line in answers] == [False, False, False]
    assert [ours(pattern).startswith("bad") for pattern in patterns] == [False, True, True]
