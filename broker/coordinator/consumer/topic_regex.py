"""Regular expressions by which members subscribe to topics (KIP-848).

Apache Kafka reads them with RE2/J; here Google's own RE2 does (`clients/linear_regex.py`). A
pattern has at most what its key in `__consumer_offsets` can hold. A name is usually decided in
microseconds, and within ten or twenty milliseconds at the very worst; `regex_lookup.py` goes
through all names in small steps, so that others get their turn even then.
"""

from ....clients.errors import ErrorCode, KafkaError
from ....clients.linear_regex import (
    MAX_PATTERN_BYTES,
    InvalidRegexError,
    Pattern,
    compile_pattern,
)

_SHOWN_CHARACTERS = 100

# Where RE2 says it otherwise than RE2/J, whose words Kafka hands on to the client.
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
    """Raises KafkaError(INVALID_REGULAR_EXPRESSION), in Kafka's words where Kafka has them."""
    try:
        return compile_pattern(text)
    except InvalidRegexError as error:
        shown = text if len(text) <= MAX_PATTERN_BYTES else text[:_SHOWN_CHARACTERS] + "..."
        reason = str(error)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{shown}` is not a valid regular expression: "
            f"{_AS_KAFKA_SAYS_IT.get(reason, reason)}.",
        ) from error
