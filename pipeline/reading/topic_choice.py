"""Parses the options that say which topics and partitions a scan reads.

    topic, subscribe     one name, or several separated by commas
    subscribePattern     a regular expression that a topic's whole name matches
    assign               JSON {"topic": [0, 1]}
    partition            one number, or several, of each of these topics; not with `assign`

All but the first and the last are options of Spark's Kafka source, with its rules: exactly one of
them is stated. Spark has `java.util.regex` for patterns. Here it is the language of RE2, which
takes time linear in the name and lacks look-around and back-references (docs/decisions/005).
"""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from ...clients.linear_regex import InvalidRegexError, compile_pattern
from ...clients.topic_partition import TopicPartition
from ...tiering.store.object_keys import is_partition_name
from .option_values import ScanError, whole_number, words

if TYPE_CHECKING:
    from ...clients.linear_regex import Pattern

STRATEGIES = ("topic", "subscribe", "subscribePattern", "assign")

_SHOWN = 200
"""The most characters that a message shows of a value."""


class TopicChoice(NamedTuple):
    """What a scan reads."""

    topics: tuple[str, ...] = ()
    """The names; empty with a pattern, whose topics only the tier's listing shows."""
    pattern: str | None = None
    partitions: frozenset[int] = frozenset()
    """Of each topic; all if empty."""
    assigned: frozenset[TopicPartition] = frozenset()
    """These partitions and no others; all of the topics if empty."""


def topic_choice(options: Mapping[str, str]) -> TopicChoice:
    """Parse the options, whose names are in lower case. Raises ScanError, which names one."""
    stated = [name for name in STRATEGIES if name.lower() in options]
    if len(stated) != 1:
        number = "Only one" if stated else "One"
        must = "can" if stated else "must"
        raise ScanError(
            f"{number} of the following options {must} be specified for format('tierlog'): "
            f"{', '.join(STRATEGIES)}"
        )
    (name,) = stated
    text = options[name.lower()]
    partitions = frozenset(
        whole_number("partition", word, at_least=0) for word in words(options.get("partition", ""))
    )
    if name == "assign":
        if "partition" in options:
            raise ScanError("The options assign and partition exclude each other")
        assigned = _assigned(text)
        return TopicChoice(tuple(sorted({each.topic for each in assigned})), assigned=assigned)
    if name == "subscribePattern":
        pattern = text.strip()
        _compiled(pattern)
        return TopicChoice(pattern=pattern, partitions=partitions)
    topics = tuple(dict.fromkeys(words(text)))
    if not topics:
        raise ScanError(
            f"No topics to subscribe to as specified value for option {name!r} is {text!r}"
        )
    return TopicChoice(topics, partitions=partitions)


def _assigned(text: str) -> frozenset[TopicPartition]:
    try:
        content = cast("dict[str, list[int]]", json.loads(text))
        named = [(topic, number) for topic, numbers in content.items() for number in numbers]
        # In Python, a JSON true is also an int.
        if not all(type(each) is int and is_partition_name(topic, each) for topic, each in named):
            raise ValueError(text)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ScanError(
            f"The option assign={_short(text)!r} is not JSON of the form "
            '{"topicA":[0,1],"topicB":[2,4]}'
        ) from None
    if not named:
        raise ScanError(
            f"No topicpartitions to assign as specified value for option 'assign' is {text!r}"
        )
    return frozenset(TopicPartition(topic, number) for topic, number in named)


def _compiled(pattern: str) -> "Pattern":
    if not pattern:
        raise ScanError(
            "Pattern to subscribe is empty as specified value for option 'subscribePattern'"
        )
    try:
        return compile_pattern(pattern)
    except InvalidRegexError as error:
        raise ScanError(
            f"The option subscribePattern={_short(pattern)!r} is not a regular expression of RE2: "
            f"{error}"
        ) from None


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class TopicMatcher:
    """Matches the names of topics with a pattern, each name once."""

    def __init__(self, pattern: str) -> None:
        """Raises ScanError if it is no pattern."""
        self._pattern = _compiled(pattern)
        self._verdicts: dict[str, bool] = {}
        """By name; those that are gone from the tier are forgotten."""

    def matching(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names that match as a whole, sorted."""
        before = self._verdicts
        self._verdicts = {
            name: before[name] if name in before else self._pattern.matches(name) for name in names
        }
        return tuple(sorted(name for name, is_match in self._verdicts.items() if is_match))
