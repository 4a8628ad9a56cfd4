"""The broker's properties by name: values that are set, checked against the tables, and defaults.

A property that is in no table causes a warning with the nearest known name, not an error, because
plugins and other distributions have their own names. A value that breaks its rule is an error
before anything is started. Code that looks up a name in no table has a bug, and fails an assertion.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping

from ...clients.config_def import ConfigDef, ConfigType, ConfigValue, parse_value
from ...clients.properties import looks_like_a_name
from .config_safety import split_listener_name

_OTHERS_PREFIXES = ("tierlog.mount.", "config.providers.")
"""Properties with these prefixes are checked by the code that reads them."""

_REAUTH_OF_MECHANISM = ".connections.max.reauth.ms"
"""The text after the mechanism in the only such property without `sasl`."""

_BEFORE_MECHANISM = ".sasl."
"""The text after the mechanism in `listener.name.<listener>.<mechanism>.sasl.jaas.config`."""


def _parse_table(table: str) -> dict[str, ConfigDef]:
    definitions: dict[str, ConfigDef] = {}
    name = ""
    for line in table.splitlines():
        if line.startswith(" "):
            before = definitions[name]
            text = f"{before.documentation} {line.strip()}".lstrip()
            definitions[name] = before._replace(documentation=text)
            continue
        name, kind, default, *rule = line.split(" | ")
        value = None if default == "-" else default.strip('"')
        validator = rule[0] if rule else ""
        definitions[name] = ConfigDef(name, ConfigType[kind], value, validator)
    return definitions


class ConfigTables:
    """Both tables of properties, each parsed when it is first needed."""

    def __init__(self) -> None:
        self._acted_on: dict[str, ConfigDef] = {}
        self._unused: dict[str, ConfigDef] = {}

    @property
    def acted_on(self) -> Mapping[str, ConfigDef]:
        if not self._acted_on:
            from .config_table import CONFIG_TABLE

            self._acted_on = _parse_table(CONFIG_TABLE)
        return self._acted_on

    @property
    def unused(self) -> Mapping[str, ConfigDef]:
        """Kafka's other properties, which are checked and otherwise ignored."""
        if not self._unused:
            from .unused_config_table import UNUSED_CONFIG_TABLE

            self._unused = _parse_table(UNUSED_CONFIG_TABLE)
        return self._unused

    def find(self, name: str) -> ConfigDef | None:
        return self.acted_on.get(name) or self.unused.get(name)


TABLES = ConfigTables()


class ConfigValues:
    """Typed access to the properties. `stated` holds the ones that the user set, as text."""

    __slots__ = ("_parsed", "stated")

    def __init__(self, stated: Mapping[str, str]) -> None:
        """Check every value. Raises KafkaError(INVALID_CONFIG) for the first invalid one."""
        self.stated = stated
        self._parsed: dict[str, ConfigValue] = {}
        for name, text in stated.items():
            definition = TABLES.find(name)
            if definition is not None:
                self._parsed[name] = parse_value(definition, text)

    def value(self, name: str) -> ConfigValue:
        """The value that is set, or the default."""
        if name not in self._parsed:
            definition = TABLES.find(name)
            assert definition is not None, f"{name} is in no table of properties"
            self._parsed[name] = parse_value(definition, definition.default)
        return self._parsed[name]

    def integer(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int), f"{name} has no integer"
        return value

    def number(self, name: str) -> float:
        value = self.value(name)
        assert isinstance(value, int | float), f"{name} has no number"
        return float(value)

    def boolean(self, name: str) -> bool:
        return bool(self.value(name))

    def text(self, name: str) -> str:
        value = self.value(name)
        return "" if value is None else str(value)

    def texts(self, name: str) -> list[str]:
        value = self.value(name)
        return value if isinstance(value, list) else []

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The properties that are set and start with `prefix`, by the rest of the name."""
        start = len(prefix)
        return {name[start:]: text for name, text in self.stated.items() if name.startswith(prefix)}


def unknown_name_warnings(
    stated: Iterable[str], plugin_names: Mapping[str, Collection[str]]
) -> list[str]:
    """A warning for each name that is not a property of tierlog or Kafka.

    `plugin_names` has the property names of each plugin by the prefix of its properties; an empty
    collection means that the plugin accepts any name.
    """
    warnings: list[str] = []
    hidden = 0
    for name in stated:
        listener, own_name = split_listener_name(name)
        before = name.removesuffix(own_name) if listener else ""
        if name.startswith(_OTHERS_PREFIXES) or _definition(name) is not None:
            continue
        prefix = next((start for start in plugin_names if name.startswith(start)), None)
        names: Iterable[str] = [*TABLES.acted_on, *TABLES.unused]
        if prefix is not None:
            names = [f"{prefix}{plugin_name}" for plugin_name in plugin_names[prefix]]
            if not names or any(_stands_for(each, name) for each in names):
                continue
        near = difflib.get_close_matches(own_name, names, n=1)
        if not near and not looks_like_a_name(name):
            hidden += 1
            continue
        hint = f"; did you mean {before}{near[0]}?" if near else "."
        warnings.append(f"Unknown property {name}{hint}")
    if hidden:
        counted = f"{hidden} properties of unknown names are not shown, as they may be parts"
        if hidden == 1:
            counted = "1 property of an unknown name is not shown, as it may be a part"
        warnings.append(
            f"{counted} of a secret: in a file, a value of several lines needs a backslash at the"
            " end of each but the last."
        )
    return warnings


def _stands_for(pattern: str, name: str) -> bool:
    """Whether a name matches a plugin's property; a property that ends with a dot is a prefix."""
    return name.startswith(pattern) if pattern.endswith(".") else name == pattern


def _definition(name: str) -> ConfigDef | None:
    """The definition of a name, which may be for a single listener or SASL mechanism."""
    listener, own_name = split_listener_name(name)
    definition = TABLES.find(own_name)
    if definition is None and listener and own_name.endswith(_REAUTH_OF_MECHANISM):
        definition = TABLES.find(_REAUTH_OF_MECHANISM.removeprefix("."))
    elif definition is None and listener and _BEFORE_MECHANISM in own_name:
        definition = TABLES.find(own_name[own_name.index(_BEFORE_MECHANISM) + 1 :])
    return definition


def is_property(name: str) -> bool:
    """Whether it names a property of Kafka or tierlog, perhaps for a single listener."""
    return _definition(name) is not None


def unused_names(stated: Iterable[str]) -> list[str]:
    """Those of the names that are Kafka's properties but that tierlog does not act on."""
    return [name for name in stated if name not in TABLES.acted_on and _definition(name)]
