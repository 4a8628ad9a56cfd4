"""Finds the topics that regular expressions match, in small steps.

A group's regular expressions are looked up together against one image of the cluster. There may be
thousands of topics, so the caller can let other tasks run between the steps. Based on Kafka's
TopicRegexResolver.
"""

from collections.abc import Generator, Iterable
from itertools import chain

from ...clients.errors import KafkaError
from ...replication.metadata.cluster_image import ClusterImage
from .consumer_records import RegexValue
from .describable import Describable
from .topic_regex import compile_regex

NAMES_PER_STRETCH = 20
"""Topic names per step. Matching a name usually takes microseconds."""
WORK_PER_STRETCH = 20_000
"""Steps of patterns that are read or followed in one stretch, in some milliseconds."""


class RegexLookup:
    """Looks up regexes among all topics. A regex that does not compile matches none.

    Of the topics that match, those stay that the client may describe whose heartbeat caused the
    look-up (`filterTopicDescribeAuthorizedTopics`).
    """

    def __init__(
        self, regexes: Iterable[str], image: ClusterImage, describable: Describable | None = None
    ) -> None:
        self._describable = describable
        self._version = image.offset
        self._names = sorted(image.topics_by_name)
        self._topics: dict[str, list[str]] = {regex: [] for regex in regexes}
        self._stretches = self._match_all()

    def is_done_after_next(self) -> bool:
        """Match the next topics; True when there are no more."""
        return next(self._stretches, True)

    def _match_all(self) -> Generator[bool]:
        """Match all names, and stop with False at the end of each stretch.

        One pattern after the other: what each keeps while it runs may be megabytes.
        """
        work = matched = 0
        for regex, topics in self._topics.items():
            try:
                pattern = compile_regex(regex)
            except KafkaError:
                # The coordinator that received this regex accepted it, but here it doesn't compile.
                continue
            work += pattern.size
            for name in self._names:
                matching = pattern.matching(name)
                while True:
                    if work > WORK_PER_STRETCH:
                        work = 0
                        yield False
                    try:
                        work += next(matching)
                    except StopIteration as end:
                        if end.value:
                            topics.append(name)
                        break
                matched += 1
                if matched % NAMES_PER_STRETCH == 0:
                    yield False

    def result(self, now_ms: int) -> dict[str, RegexValue]:
        """The topics that each regular expression matches."""
        if self._describable is not None:
            shown = self._describable(chain.from_iterable(self._topics.values()))
            for topics in self._topics.values():
                topics[:] = [topic for topic in topics if topic in shown]
        return {
            regex: RegexValue(tuple(topics), self._version, now_ms)
            for regex, topics in self._topics.items()
        }
