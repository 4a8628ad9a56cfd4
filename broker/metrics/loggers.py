"""The levels of the broker's loggers, read and set with Kafka's names (`LoggingController`).

A logger exists from its first use, which is usually when its module is loaded. A level that is set
is not stored: it applies until the process ends. Nothing is logged at TRACE; FATAL leaves only the
errors that end the broker.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ..broker_ids import parse_broker_id

if TYPE_CHECKING:
    from ...replication.control.configs.alter_configs import ConfigChange

ROOT = "root"

_LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""From the finest to the coarsest."""
_LOGGER_NAME = re.compile(r"[\w.$-]+")


_ALSO_STATED = {"ALL": 1, "OFF": 60}
"""Further levels of Log4j, which a start takes."""


def stated_levels(texts: Sequence[str]) -> dict[str, int]:
    """Levels by logger from `LEVEL`, which is that of `root`, or `LOGGER=LEVEL`; the last counts.

    The names are those of Log4j, in any case. Raises KafkaError(INVALID_CONFIG).
    """
    stated: dict[str, int] = {}
    for text in texts:
        before, equals, level = text.rpartition("=")
        name = before.strip() if equals else ROOT
        number = {**_LEVELS, **_ALSO_STATED}.get(level.strip().upper())
        if number is None or not _LOGGER_NAME.fullmatch(name):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{text!r} states no log level: write LEVEL or LOGGER=LEVEL, where LEVEL is one of"
                f" {', '.join((*_LEVELS, *_ALSO_STATED))}.",
            )
        stated[name] = number
    return stated


def apply(stated: Mapping[str, int]) -> None:
    """Set these levels."""
    for name, number in stated.items():
        logging.getLogger(None if name == ROOT else name).setLevel(number)


def levels() -> Mapping[str, str]:
    """Every logger's name and its effective level."""
    names = {ROOT: _name_of(logging.getLogger().level)}
    for name, logger in sorted(logging.getLogger().manager.loggerDict.items()):
        # A placeholder is not a logger: its name is only a prefix of others.
        if isinstance(logger, logging.Logger):
            names[name] = _name_of(logger.getEffectiveLevel())
    return names


def check(node_id: int, name: str, changes: "Sequence[ConfigChange]") -> None:
    """Raise KafkaError if a change is invalid. `name` is the broker's id."""
    from ...replication.control.configs.alter_configs import ConfigOperation

    broker_id = parse_broker_id(name)
    if broker_id is None:
        raise _refusal(f"Node id must be an integer, but it is: {name}")
    if broker_id != node_id:
        raise _refusal(f"Unexpected node id. Expected {node_id}, but received {name}")
    existing = levels()
    for logger, number, level in changes:
        try:
            operation = ConfigOperation(number)
        except ValueError:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            raise _refusal(
                f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
            )
        if logger not in existing:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")
        if operation is ConfigOperation.DELETE:
            if logger == ROOT:
                raise _refusal("Removing the log level of the root logger is not allowed")
        elif level not in _LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {logger} to {level} as it is not a supported log "
                f"level. Valid log levels are {', '.join(sorted(_LEVELS))}",
            )


def change(changes: "Sequence[ConfigChange]") -> None:
    """Set the levels; a logger without a level inherits one. Call `check` first."""
    from ...replication.control.configs.alter_configs import ConfigOperation

    for name, operation, level in changes:
        logger = logging.getLogger(None if name == ROOT else name)
        is_removed = operation == ConfigOperation.DELETE or level is None
        logger.setLevel(logging.NOTSET if is_removed else _LEVELS[str(level)])


def _name_of(level: int) -> str:
    for name, least in _LEVELS.items():
        if level <= least:
            return name
    return "FATAL"


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
