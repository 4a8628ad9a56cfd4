"""The broker configuration of a command: `--config FILE` and `--override NAME=VALUE`, combined.

Without a file it is that of the dev broker, for which `--data` and `--port` are short. No command
has other arguments for URLs and credentials: secrets stay in the file, and a tool that reads the
broker's file works on the broker's tier.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..broker.config.config import BrokerConfig, read_config, with_dev_defaults, with_dev_status
from ..broker.config.quorum_config import PORT_MAX
from ..broker.network.socket_listener import local_host_name
from ..clients.errors import ErrorCode, KafkaError
from ..clients.properties import parse_properties, shown_pair
from ..storage.files import OsFiles

if TYPE_CHECKING:
    from argparse import ArgumentParser

_VARIABLE = r"\$\{[^}]*\}"
_DIRECTORIES = ("log.dirs", "log.dir")
_LISTENERS = ("listeners",)
_SHORTEST_VALUE = 4
"""Shorter values of variables stay in messages, as they occur in any."""


class DevWords(NamedTuple):
    """What the short arguments of the dev broker say, as text."""

    data: str | None = None
    port: str | None = None


_NO_WORDS = DevWords()


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
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="where the dev broker keeps its data, and its tier in DIR/remote (default: ./data)",
    )


def add_port_argument(parser: "ArgumentParser") -> None:
    """Add the argument for the port of the dev broker."""
    parser.add_argument(
        "--port",
        metavar="PORT",
        help="where the dev broker listens, on 127.0.0.1 (default: 9092; 0: any free port)",
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
        help="minimum log level (default: INFO), or that of one logger and those below"
        " it; can be repeated",
    )


def stated_configuration(
    file: str | None, overrides: Sequence[str], dev: DevWords = _NO_WORDS
) -> BrokerConfig:
    """The configuration in `file`, with `overrides` applied; without one, the dev broker's.

    Raises KafkaError(INVALID_CONFIG).
    """
    stated: dict[str, str] = {}
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
    stated |= _of_dev_words(dev, file, stated)
    if any("${" in value or name.startswith("config.providers") for name, value in stated.items()):
        from ..broker.config.config_providers import resolve_variables

        resolved = resolve_variables(stated, OsFiles().read, os.environ)
        try:
            config = _read(file, resolved)
        except KafkaError as error:
            raise _bad(_without_values(error.message, stated, resolved)) from None
    else:
        config = _read(file, stated)
    return config


def _of_dev_words(dev: DevWords, file: str | None, stated: Mapping[str, str]) -> dict[str, str]:
    """The properties that the short arguments stand for.

    Raises KafkaError(INVALID_CONFIG), also if something else says the same.
    """
    properties: dict[str, str] = {}
    if dev.data is not None:
        _ensure_alone("--data", _DIRECTORIES, file, stated)
        if not dev.data.strip() or "," in dev.data:
            raise _bad(f"--data names one directory, not {dev.data!r}: log.dirs names several.")
        properties["log.dirs"] = dev.data
    if (port := dev.port) is not None:
        _ensure_alone("--port", _LISTENERS, file, stated)
        if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) <= PORT_MAX):
            raise _bad(f"--port {port} is not a number from 0 to {PORT_MAX}.")
        properties["listeners"] = f"PLAINTEXT://127.0.0.1:{int(port)}"
    return properties


def _ensure_alone(
    word: str, names: Sequence[str], file: str | None, stated: Mapping[str, str]
) -> None:
    if file is not None:
        raise _bad(
            f"{word} is for a broker without a file: set {names[0]} in {file}, or with"
            f" --override {names[0]}=VALUE."
        )
    for name in names:
        if name in stated:
            raise _bad(f"{word} and --override {name} say the same: leave one of them out.")


def _read(file: str | None, stated: Mapping[str, str]) -> BrokerConfig:
    """The checked configuration; that of the dev broker without a file."""
    if file is not None:
        return read_config(stated, local_host_name())
    return with_dev_status(read_config(with_dev_defaults(stated), local_host_name()))


def _bad(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _without_values(message: str, stated: Mapping[str, str], resolved: Mapping[str, str]) -> str:
    """The message with the variables of the `stated` properties in place of their values.

    A check repeats the value that it refuses: a secret in the wrong property is a secret still.
    """
    replaced: dict[str, str] = {}
    for name, text in stated.items():
        if resolved.get(name, text) != text:
            replaced.update(_values(text, resolved[name]))
    # The longest first: a part of a value may be a value, too.
    for value in sorted(replaced, key=len, reverse=True):
        for form in (value, value.upper(), value.lower()):
            message = message.replace(form, replaced[value])
    return message


def _values(text: str, value: str) -> Iterator[tuple[str, str]]:
    """What stands in a value for each variable of its text, and for all of the text."""
    literals = [re.escape(each) for each in re.split(_VARIABLE, text)]
    match = re.fullmatch("(.*?)".join(literals), value, re.DOTALL)
    variables = re.findall(_VARIABLE, text)
    parts = zip(match.groups() if match else (), variables, strict=False)
    for part, variable in ((value.strip(), text.strip()), *parts):
        yield from ((piece, variable) for piece in _pieces(part) if len(piece) >= _SHORTEST_VALUE)


def _pieces(part: str) -> list[str]:
    """The part, and its elements if it is a list: a check names the first that it refuses."""
    return [part, *(each.strip() for each in part.split(","))]
