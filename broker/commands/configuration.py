"""The broker configuration of a command: `--config FILE` and `--override NAME=VALUE`, combined.

No command has other arguments for URLs and credentials: secrets stay in the file, and a tool that
reads the broker's file works on the broker's tier.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.properties import parse_properties, shown_pair
from ...storage.files import OsFiles
from ..config.config import BrokerConfig, dev_properties, read_config, with_dev_status
from ..network.socket_listener import local_host_name

if TYPE_CHECKING:
    from argparse import ArgumentParser


def add_configuration_arguments(parser: "ArgumentParser") -> None:
    """Add the arguments that name a broker's configuration."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a server.properties file (default: the dev broker's settings, with data in ./data)",
    )
    parser.add_argument(
        "--override",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a property that overrides the file; can be repeated",
    )


def add_log_arguments(parser: "ArgumentParser") -> None:
    """Add the arguments that say how log lines look, and which are written."""
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="log lines as text, or each as a JSON object with ts, level, logger and msg",
    )
    parser.add_argument(
        "--log-level",
        metavar="[LOGGER=]LEVEL",
        action="append",
        default=[],
        help="the least level that is logged (default: INFO), or that of one logger and those below"
        " it; can be repeated",
    )


def stated_configuration(file: str | None, overrides: Sequence[str]) -> BrokerConfig:
    """The configuration in `file`, with `overrides` applied. Raises KafkaError(INVALID_CONFIG)."""
    stated = dev_properties()
    if file is not None:
        try:
            content = OsFiles().read(file).decode()
        except OSError as error:
            raise _bad(f"The file {file} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise _bad(f"The file {file} is not UTF-8 text: save it as UTF-8.") from error
        stated = parse_properties(content)
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise _bad(f"--override {shown_pair(override)} is not of the form name=value.")
        stated[name.strip()] = value
    if any("${" in value or name.startswith("config.providers") for name, value in stated.items()):
        from ..config.config_providers import resolve_variables
        from ..config.variable_values import without_values

        resolved = resolve_variables(stated, OsFiles().read, os.environ)
        try:
            config = read_config(resolved, local_host_name())
        except KafkaError as error:
            raise _bad(without_values(error.message, stated, resolved)) from None
    else:
        config = read_config(stated, local_host_name())
    return with_dev_status(config) if file is None else config


def _bad(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, sentence)
