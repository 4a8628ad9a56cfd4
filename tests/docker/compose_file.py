"""A compose file of docker/ as values: its variables filled in, its services with what they state.

Every key of a service is either part of `Service` or named in `NO_MEANING_FOR_A_PROCESS`, so that
nothing in the file is passed over unseen.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from tierlog.tests.docker.image_file import FOLDER

SOURCE = FOLDER / "compose.yaml"
ONE_BROKER = FOLDER / "compose-one.yaml"

NO_MEANING_FOR_A_PROCESS = frozenset(
    {
        "build",  # the image's scripts and the wheel's code run from this tree
        "init",  # only a first process of a container loses signals
        "restart",  # a service that ends fails the test
        "read_only",
        "tmpfs",
        "cap_drop",
        "security_opt",
    }
)
_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\})")


@dataclass(frozen=True, slots=True)
class Published:
    """A port of a container that the host listens on."""

    host_port: int
    port: int


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the file."""

    name: str
    image: str
    environment: Mapping[str, str]
    command: tuple[str, ...]
    """Empty: the image's own."""
    health: tuple[str, ...]
    """Empty: the service has none, or switches the image's off."""
    after: Mapping[str, str]
    """The services it starts after, each with the condition."""
    published: tuple[Published, ...]
    volumes: Mapping[str, str]
    """Names of volumes by where they are mounted."""
    stop_signal: str
    grace_s: float


def filled(text: str, variables: Mapping[str, str]) -> str:
    """The text with `${NAME}`, `${NAME:-default}` and `$$` replaced, as compose does."""

    def value(match: re.Match[str]) -> str:
        if match["name"] is None:
            return "$"
        return variables.get(match["name"]) or match["default"] or ""

    return _VARIABLE.sub(value, text)


def services(variables: Mapping[str, str] | None = None, file: Path = SOURCE) -> dict[str, Service]:
    """All services of the file, by name."""
    document = cast("dict[str, Any]", yaml.safe_load(filled(file.read_text(), variables or {})))
    volumes = frozenset(document["volumes"])
    return {
        name: _service(name, cast("dict[str, Any]", stated), volumes)
        for name, stated in document["services"].items()
    }


def _service(name: str, stated: dict[str, Any], volumes: frozenset[str]) -> Service:
    stated = dict(stated)
    for key in NO_MEANING_FOR_A_PROCESS:
        stated.pop(key, None)
    mounts = [str(each).partition(":") for each in stated.pop("volumes", [])]
    assert {volume for volume, _, _ in mounts} <= volumes, f"{name} mounts what is no volume"
    service = Service(
        name,
        str(stated.pop("image")),
        {key: _text(name, value) for key, value in stated.pop("environment", {}).items()},
        tuple(map(str, stated.pop("command", ()))),
        _health(stated.pop("healthcheck", {})),
        {on: str(how["condition"]) for on, how in stated.pop("depends_on", {}).items()},
        tuple(map(_published, stated.pop("ports", ()))),
        {path: volume for volume, _, path in mounts},
        str(stated.pop("stop_signal", "SIGTERM")),
        float(str(stated.pop("stop_grace_period", "10s")).removesuffix("s")),
    )
    assert not stated, f"{name} has keys that no test looks at: {sorted(stated)}"
    return service


def _text(service: str, value: object) -> str:
    """Compose takes text and numbers, and refuses true and false without quotes."""
    assert isinstance(value, str) or type(value) is int, f"{service}: quote {value!r}"
    return str(value)


def _health(stated: Mapping[str, Any]) -> tuple[str, ...]:
    if not stated or stated.get("disable"):
        return ()
    kind, *command = cast("list[str]", stated["test"])
    assert kind == "CMD", "a health check without a shell"
    return tuple(command)


def _published(text: object) -> Published:
    host, host_port, port = str(text).split(":")
    assert host == "127.0.0.1", f"{text} would let other machines in"
    return Published(int(host_port), int(port))
