"""`tierlog config`: the configs of topics, brokers and groups."""

import argparse
from collections.abc import Sequence

from ...broker.config.config_safety import split_listener_name
from ...broker.config.config_values import TABLES
from ...clients.admin import Admin, ConfigEntry, ConfigResourceType
from ...clients.config_def import ConfigType
from ...clients.errors import ErrorCode, KafkaError
from .address import UsageError
from .client_session import Session, run_command
from .connection_arguments import EXIT_CODES, add_connection, add_verbs
from .topic import absent_topic, config_pairs

_EXAMPLES = f"""\
examples:
  tierlog config get topic orders                     each config, its value and its source
  tierlog config get broker 1 log.retention.ms
  tierlog config set topic orders retention.ms=3600000
  tierlog config unset topic orders retention.ms
  tierlog config set broker default log.cleaner.threads=2

A broker is its id; `default` stands for all brokers of the cluster.

{EXIT_CODES}"""

_TYPES = {
    "topic": ConfigResourceType.TOPIC,
    "broker": ConfigResourceType.BROKER,
    "group": ConfigResourceType.GROUP,
}
_HELP = {
    "get": "show the configs of a topic, a broker or a group",
    "set": "set configs",
    "unset": "return configs to their defaults",
}
_ALL_BROKERS = "default"
_HIDDEN = "(hidden)"


def add_config_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `tierlog config`."""
    for name, verb in add_verbs(parser, "config_command", _EXAMPLES, _HELP):
        verb.add_argument("type", metavar="TYPE", choices=sorted(_TYPES), help=", ".join(_TYPES))
        verb.add_argument("name", metavar="NAME", help="of the topic, broker or group")
        if name == "set":
            verb.add_argument("configs", metavar="KEY=VALUE", nargs="+")
        else:
            verb.add_argument("configs", metavar="KEY", nargs="*" if name == "get" else "+")
        add_connection(verb)


def run_config_command(parsed: argparse.Namespace) -> int:
    """Run one of the commands; returns the exit code."""
    return run_command(_COMMANDS[parsed.config_command], parsed)


def _resource_name(parsed: argparse.Namespace) -> str:
    name: str = parsed.name
    if parsed.type != "broker":
        return name
    if name == _ALL_BROKERS:
        return ""
    if not (name.isascii() and name.isdigit() and len(name) < 10):
        raise UsageError(f"{name!r} is not a broker: write its id, or `default` for all brokers.")
    return name


async def _get(parsed: argparse.Namespace, session: Session) -> None:
    name = _resource_name(parsed)
    async with session.admin() as admin:
        await _require_broker(admin, parsed, name)
        try:
            entries = await admin.config_entries(_TYPES[parsed.type], name, parsed.configs or None)
        except KafkaError as error:
            raise absent_topic(error, name) from error
    absent = set(parsed.configs) - {entry.name for entry in entries}
    if absent:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The {parsed.type} {parsed.name} has no config {', '.join(sorted(absent))}.",
        )
    entries.sort()
    session.result([_fields(entry) for entry in entries])
    session.table(["config", "value", "source"], [_cells(entry) for entry in entries])


async def _require_broker(admin: Admin, parsed: argparse.Namespace, name: str) -> None:
    """Raise `KafkaError` for a broker that the cluster does not have."""
    if parsed.type == "broker" and name:
        brokers = (await admin.describe_cluster()).brokers
        if int(name) not in brokers:
            ids = ", ".join(map(str, sorted(brokers)))
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"There is no broker {name}, only {ids}."
            )


def _fields(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name.lower(),
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
    }


def _cells(entry: ConfigEntry) -> Sequence[str]:
    value = _HIDDEN if entry.is_sensitive else entry.value or ""
    return entry.name, value, entry.source.name.lower().replace("_", " ")


async def _set(parsed: argparse.Namespace, session: Session) -> None:
    await _alter(parsed, session, {**config_pairs(parsed.configs)})


async def _unset(parsed: argparse.Namespace, session: Session) -> None:
    await _alter(parsed, session, dict.fromkeys(parsed.configs))


async def _alter(
    parsed: argparse.Namespace, session: Session, changes: dict[str, str | None]
) -> None:
    name = _resource_name(parsed)
    async with session.admin() as admin:
        await _require_broker(admin, parsed, name)
        try:
            await admin.alter_configs(_TYPES[parsed.type], name, changes)
        except KafkaError as error:
            raise absent_topic(error, name) from error
    session.line(f"{parsed.type} {parsed.name} altered")
    shown = {key: _display_value(parsed.type, key, value) for key, value in changes.items()}
    session.result({"type": parsed.type, "name": parsed.name, "altered": shown})


def _display_value(kind: str, key: str, value: str | None) -> str | None:
    """A new value as it may stand in an output that others keep, such as that of CI."""
    if kind != "broker" or value is None:
        return value
    definition = TABLES.find(split_listener_name(key)[1])
    is_secret = definition is None or definition.type is ConfigType.PASSWORD
    return _HIDDEN if is_secret else value


_COMMANDS = {"get": _get, "set": _set, "unset": _unset}
