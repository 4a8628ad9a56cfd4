"""Where a command finds its cluster, and the client properties that the user states.

The address comes from the first of: `--bootstrap`, the profile that `--profile` or TIERLOG_PROFILE
names, TIERLOG_BOOTSTRAP, KAFKA_BOOTSTRAP_SERVERS, the default profile, 127.0.0.1:9092. The
`bootstrap.servers` of `-X` or of the file of `--command-config` come after `--bootstrap`. Profiles
stand in `~/.config/tierlog/config.toml` (or below XDG_CONFIG_HOME):

    profile = "dev"

    [profiles.dev]
    bootstrap = "127.0.0.1:9092"

    [profiles.dev.properties]
    "request.timeout.ms" = 5000

Everything here is decided from values; `client_session.py` reads the environment and the file.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

from ...clients.properties import shown_pair

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class UsageError(Exception):
    """The arguments, the environment or the file of profiles cannot be used; says what to do."""


class Target(NamedTuple):
    """The cluster of a command: its `bootstrap.servers`, and properties of the client by name."""

    bootstrap: str
    properties: Mapping[str, str]


class Stated(NamedTuple):
    """What the user states on the command line."""

    bootstrap: str | None
    profile: str | None
    properties: Sequence[str]
    """Each `name=value`."""
    file: Mapping[str, str] = MappingProxyType({})
    """The properties of the file that `--command-config` names."""


def config_file(environ: Mapping[str, str]) -> str:
    """The path of the file with profiles."""
    base = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    return f"{base}/tierlog/config.toml"


def target_of(stated: Stated, environ: Mapping[str, str], content: bytes | None) -> Target:
    """The target; `content` is that of the file of profiles, or None. Raises UsageError."""
    wished = stated.profile or environ.get("TIERLOG_PROFILE") or None
    address = stated.bootstrap or ("" if wished else _of_environment(environ))
    profile: Target | None = None
    # A file of properties says all that the default profile would.
    if wished is not None or not (address or stated.file):
        profile = _profile(wished, content, config_file(environ))
    properties = {} if profile is None else dict(profile.properties)
    properties |= {**stated.file, **_pairs(stated.properties)}
    stated_address = properties.pop("bootstrap.servers", "")
    return Target(
        stated.bootstrap
        or stated_address
        or address
        or (profile.bootstrap if profile is not None else "")
        or DEFAULT_BOOTSTRAP,
        properties,
    )


def _of_environment(environ: Mapping[str, str]) -> str:
    return environ.get("TIERLOG_BOOTSTRAP") or environ.get("KAFKA_BOOTSTRAP_SERVERS") or ""


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"-X {shown_pair(word)} is not of the form name=value.")
        pairs[name.strip()] = value.strip()
    return pairs


def _profile(name: str | None, content: bytes | None, file: str) -> Target | None:
    if content is None:
        if name is not None:
            raise UsageError(f"There is no profile {name}: {file} does not exist.")
        return None
    # Loaded by those alone who have such a file.
    import tomllib

    try:
        stated: dict[str, object] = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not a TOML file: {error}.") from error
    name = name or _text(stated.get("profile"), "profile", file) or None
    if name is None:
        return None
    profile = _table(stated.get("profiles"), "profiles", file).get(name)
    if profile is None:
        raise UsageError(f"There is no profile {name} in {file}: write [profiles.{name}] there.")
    entries = _table(profile, f"profiles.{name}", file)
    unknown = sorted(entries.keys() - {"bootstrap", "properties"})
    if unknown:
        raise UsageError(
            f"{file} has {unknown[0]} in the profile {name}: only bootstrap and properties may "
            "stand there."
        )
    properties = _table(entries.get("properties"), f"profiles.{name}.properties", file)
    return Target(
        _text(entries.get("bootstrap"), "bootstrap", file),
        {key: _property(value) for key, value in properties.items()},
    )


def _property(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(value: object, name: str, file: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise UsageError(f"{name} in {file} is not text: write it in quotation marks.")


def _table(value: object, name: str, file: str) -> dict[str, object]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    raise UsageError(f"{name} in {file} is not a table: write [{name}].")
