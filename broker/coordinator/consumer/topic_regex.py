"""Compiles the regular expressions by which members subscribe to topics (KIP-848).

Apache Kafka uses RE2/J; this uses Google's RE2 (`clients/linear_regex.py`). The maximum length is
that of a key in `__consumer_offsets`. Matching a name usually takes microseconds, and 10 to
20 ms in the worst case; `regex_lookup.py` goes through the names in small steps, so that other
tasks can run even then.
"""

from ....clients.errors import ErrorCode, KafkaError
from ....clients.linear_regex import (
    MAX_PATTERN_BYTES,
    InvalidRegexError,
    NoLibraryError,
    Pattern,
    compile_pattern,
)

_SHOWN_CHARACTERS = 100

# RE2's error messages that differ from RE2/J's, which Kafka returns to the client.
_AS_KAFKA_SAYS_IT = {
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


def compile_regex(text: str) -> Pattern:
    """Compile a regex. Raises KafkaError(INVALID_REGULAR_EXPRESSION), with Kafka's message."""
    try:
        return compile_pattern(text)
    except NoLibraryError as error:
        sentence = f"SubscribedTopicRegex cannot be used: {error}."
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, sentence) from error
    except InvalidRegexError as error:
        shown = text if len(text) <= MAX_PATTERN_BYTES else text[:_SHOWN_CHARACTERS] + "..."
        reason = str(error)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{shown}` is not a valid regular expression: "
            f"{_AS_KAFKA_SAYS_IT.get(reason, reason)}.",
        ) from error
