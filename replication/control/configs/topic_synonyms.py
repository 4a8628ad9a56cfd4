"""The broker properties that give a topic property its default."""

from collections.abc import Mapping
from typing import NamedTuple

from ....storage.config import TOPIC_CONFIGS

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


class Synonym(NamedTuple):
    """A broker property; its value times `factor` is the default of a topic property."""

    name: str
    factor: int = 1


_FURTHER: Mapping[str, tuple[Synonym, ...]] = {
    "segment.ms": (Synonym("log.roll.hours", _HOUR_MS),),
    "segment.jitter.ms": (Synonym("log.roll.jitter.hours", _HOUR_MS),),
    "retention.ms": (
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    "flush.ms": (Synonym("log.flush.scheduler.interval.ms"),),
}
"""By topic property: those that count where its `server_synonym` is not set."""


def synonyms(topic_property: str) -> tuple[Synonym, ...]:
    """The broker properties that give this topic property its default, the strongest first."""
    first = TOPIC_CONFIGS[topic_property].server_synonym
    own = () if first is None else (Synonym(first),)
    return own + _FURTHER.get(topic_property, ())
