"""Regular expressions by which members subscribe to topics (KIP-848).

Apache Kafka reads them with RE2/J; here Google's own RE2 does (docs/decisions/005). Both take the
same language, which leaves out what can only be matched by trying and going back: a client's
pattern takes time in proportion to its size and the name's, whatever it is. Python's `re` gives no
such promise, and one pattern could hold up the whole broker. Library and patterns are loaded only
when a member subscribes by one.

Bounds: a pattern has at most 32,767 bytes, what its key in `__consumer_offsets` can hold, and its
programs must fit into half a mebibyte, which is some thousands of letters and choices. A name is
usually decided in microseconds, and within ten or twenty milliseconds at the very worst;
`regex_lookup.py` goes through all names in small steps, so that others get their turn even then.
"""

from typing import Protocol, cast

from ...clients.errors import ErrorCode, KafkaError

MAX_PATTERN_BYTES = 32_767
MAX_PROGRAM_BYTES = 512 * 1024

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


class _Compiled(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


class _Options(Protocol):
    log_errors: bool
    never_capture: bool
    max_mem: int


class _Library(Protocol):
    """What is used of the module `re2`, which publishes no types."""

    error: type[Exception]

    def Options(self) -> _Options: ...

    def compile(self, pattern: str, options: _Options) -> _Compiled: ...


class Pattern:
    """A pattern that is understood."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled: _Compiled) -> None:
        self._compiled = compiled

    def matches(self, name: str) -> bool:
        """Whether it stands for the whole of `name`."""
        return self._compiled.fullmatch(name) is not None


def compile_regex(text: str) -> Pattern:
    """Raises KafkaError(INVALID_REGULAR_EXPRESSION), in Kafka's words where Kafka has them."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_PATTERN_BYTES:
        raise _invalid(text[:100] + "...", "the expression is too long")
    import re2 as untyped

    library = cast("_Library", untyped)
    options = library.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_PROGRAM_BYTES
    try:
        return Pattern(library.compile(text, options))
    except (library.error, UnicodeEncodeError) as error:
        raise _invalid(text, _reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "invalid UTF-8"
    said = error.args[0]
    sentence = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    # "what is wrong: the part of the pattern"; the part may hold anything.
    what = sentence.partition(": ")[0]
    return _AS_KAFKA_SAYS_IT.get(what, what)


def _invalid(text: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}.",
    )
