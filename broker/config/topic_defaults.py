"""The broker's defaults for topics, and the source of each.

If a topic does not set a property, its default is the broker property for it (its synonym), or else
Kafka's default. Some properties have several synonyms with different units, such as `log.roll.ms`
before `log.roll.hours`; the first one that is set is used. DescribeConfigs shows the whole chain.

A broker property may be set for this broker, for all brokers and in the node's file; the first of
these is used.
"""

from collections.abc import Mapping
from itertools import dropwhile
from typing import NamedTuple

from ...replication.control.configs.topic_synonyms import synonyms
from ...replication.control.controller_config import ConfigSource
from ...storage.config import TOPIC_CONFIGS, LogConfig
from .config_values import TABLES, ConfigValues

_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_INTERCHANGEABLE: Mapping[str, tuple[str, ...]] = {
    _FLUSH[0]: _FLUSH,
    **{
        name: names
        for names in (
            ("log.roll.ms", "log.roll.hours"),
            ("log.roll.jitter.ms", "log.roll.jitter.hours"),
            ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        )
        for name in names
    },
}


def interchangeable(name: str) -> tuple[str, ...]:
    """All broker properties with the same meaning as this one, the finest unit first."""
    return _INTERCHANGEABLE.get(name, (name,))


class Default(NamedTuple):
    """One link of the chain: the broker property, its text, and its source."""

    name: str
    value: str
    source: ConfigSource


class TopicDefaults:
    """Reads the broker's properties as topic defaults."""

    def __init__(self, values: ConfigValues) -> None:
        self._values = values
        self._file = values.stated
        self._own: Mapping[str, str] = {}
        self._everyone: Mapping[str, str] = {}

    def update(
        self, values: ConfigValues, own: Mapping[str, str], everyone: Mapping[str, str]
    ) -> None:
        """Use `values` from now on; `own` and `everyone` are its dynamic values by scope."""
        self._values, self._own, self._everyone = values, own, everyone

    def stated(self, topic_property: str) -> str | None:
        """The default that the user set, in the topic property's unit; None if not set."""
        for name, factor in synonyms(topic_property):
            text = self._values.stated.get(name)
            if text is None:
                continue
            if factor == 1:
                return text.strip()
            amount = self._values.integer(name)
            return str(amount * factor if amount >= 0 else amount)
        return None

    def chain(self, topic_property: str) -> list[Default]:
        """The broker properties that determine this default, as DescribeConfigs lists them.

        First those that are set, then Kafka's defaults. As in Kafka (`ConfigHelper`), the list
        starts at the first entry of the first synonym, and is empty if that has no entry.
        """
        names = [name for name, _ in synonyms(topic_property)]
        layers = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self._own),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self._everyone),
            (ConfigSource.STATIC_BROKER_CONFIG, self._file),
        )
        chain = [
            Default(name, stated[name].strip(), source)
            for source, stated in layers
            for name in names
            if name in stated
        ]
        for name in names:
            definition = TABLES.find(name)
            if definition is not None and definition.default is not None:
                chain.append(Default(name, definition.default, ConfigSource.DEFAULT_CONFIG))
        strongest = TOPIC_CONFIGS[topic_property].server_synonym
        return list(dropwhile(lambda each: each.name != strongest, chain))

    def log_config(self) -> LogConfig:
        """The configuration of a topic without properties of its own."""
        stated = {name: self.stated(name) for name in TOPIC_CONFIGS}
        overrides = {name: text for name, text in stated.items() if text is not None}
        limit = self._values.integer("tierlog.decompressed.batch.max.bytes")
        return LogConfig.from_properties(overrides, LogConfig(decompressed_batch_max_bytes=limit))
