"""Compiles the regular expressions by which members subscribe to topics (KIP-848).

Apache Kafka uses RE2/J; `clients/linear_regex.py` reads the same language. The maximum length is
that of a key in `__consumer_offsets`. Matching a name usually takes microseconds; `regex_lookup.py`
goes through the names, and through what takes longer, in small steps, so that other tasks can run.
"""

from ...clients.errors import ErrorCode, KafkaError
from ...clients.linear_regex import (
    MAX_PATTERN_BYTES,
    InvalidRegexError,
    Pattern,
    compile_pattern,
)

_SHOWN_CHARACTERS = 100


def compile_regex(text: str) -> Pattern:
    """Compile a regex. Raises KafkaError(INVALID_REGULAR_EXPRESSION), with Kafka's message."""
    try:
        return compile_pattern(text)
    except InvalidRegexError as error:
        shown = text if len(text) <= MAX_PATTERN_BYTES else text[:_SHOWN_CHARACTERS] + "..."
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {error}.",
        ) from error
