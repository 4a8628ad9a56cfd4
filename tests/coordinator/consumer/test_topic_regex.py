"""Members' patterns are RE2's language, stand for whole names, and never take long."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.linear_regex import MAX_PATTERN_BYTES
from tierlog.coordinator.consumer.topic_regex import compile_regex


def test_a_pattern_stands_for_whole_names() -> None:
    pattern = compile_regex("orders-.*")
    assert pattern.matches("orders-1")
    assert not pattern.matches("my-orders-1")
    assert not compile_regex("orders").matches("orders-1")
    assert compile_regex("a|ab").matches("ab")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "missing closing ]"),
        ("(", "missing closing )"),
        ("*", "missing argument to repetition operator"),
        (r"a(?=b)", "invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid escape sequence"),
        (r"\C", "invalid escape sequence"),
        (r"\x{41", "invalid escape sequence"),
        (r"\x{41a", "invalid escape sequence"),
        ("(?P<x>a)(?P<x>b)", "duplicate capture group name"),
    ],
)
def test_what_is_no_pattern_is_refused_in_kafkas_words(text: str, reason: str) -> None:
    with pytest.raises(KafkaError) as caught:
        compile_regex(text)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert caught.value.message == (
        f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}."
    )


def test_a_pattern_has_a_greatest_length() -> None:
    longest = "a" + "|a" * (MAX_PATTERN_BYTES // 2)
    assert len(longest) == MAX_PATTERN_BYTES
    assert compile_regex(longest).matches("a")
    with pytest.raises(KafkaError) as caught:
        compile_regex(longest + "b")
    assert "too long" in caught.value.message
    assert len(caught.value.message) < 250


@pytest.mark.parametrize(
    "text", ["(a{1000}){1000}", "((((a{10}){10}){10}){10}){10}", ".{999}" * 40]
)
def test_a_pattern_has_a_greatest_program(text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        compile_regex(text)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_text_that_utf_8_cannot_hold_is_no_pattern() -> None:
    with pytest.raises(KafkaError) as caught:
        compile_regex("a\ud800")
    assert "invalid UTF-8" in caught.value.message


def test_what_hangs_python_is_decided_at_once() -> None:
    """Python's `re` would take about 2 to the power of 240 steps for this."""
    assert not compile_regex("(a+)+b").matches("a" * 249)
    assert not compile_regex("(a?){200}a{200}").matches("a" * 199)
