"""Which topics patterns stand for, worked out a stretch at a time.

A group's patterns are looked up together against one image of the cluster. That may be thousands
of names, so whoever does it can let others run in between. After Kafka's TopicRegexResolver.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....clients.errors import KafkaError
from ....replication.metadata.cluster_image import ClusterImage
from .consumer_records import RegexValue
from .topic_regex import compile_regex

if TYPE_CHECKING:
    from ....clients.linear_regex import Pattern

NAMES_PER_STRETCH = 20
"""A name takes microseconds; with the worst of patterns, some milliseconds."""


class RegexLookup:
    """One look at all topics for some patterns. What cannot be compiled stands for none."""

    def __init__(self, regexes: Iterable[str], image: ClusterImage) -> None:
        self._version = image.offset
        self._names = iter(sorted(image.topics_by_name))
        self._topics: dict[str, list[str]] = {regex: [] for regex in regexes}
        self._patterns: list[tuple[Pattern, list[str]]] = []
        for regex, topics in self._topics.items():
            try:
                self._patterns.append((compile_regex(regex), topics))
            except KafkaError:
                # It was checked when it came, by a coordinator that knew it.
                continue

    def is_done_after_next(self) -> bool:
        """Look at the next stretch of topics; True when there are no more."""
        for _ in range(NAMES_PER_STRETCH):
            name = next(self._names, None)
            if name is None:
                return True
            for pattern, topics in self._patterns:
                if pattern.matches(name):
                    topics.append(name)
        return False

    def result(self, now_ms: int) -> dict[str, RegexValue]:
        """What the patterns stand for."""
        return {
            regex: RegexValue(tuple(topics), self._version, now_ms)
            for regex, topics in self._topics.items()
        }
