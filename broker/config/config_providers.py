"""`config.providers` (KIP-297, KIP-421): resolves variables in a file's values.

    config.providers=env,file
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/tierlog
    rsm.config.option.key=${env:TIER_KEY}
    rsm.config.option.secret=${file:/etc/tierlog/secrets.properties:tier.secret}

The class names and parameters are Kafka's. Kafka keeps an unresolved variable as text, so the key
would be `${env:TIER_KEY}` itself. Here an unresolved variable is an error at startup, and the
message never contains a value that was read.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.properties import parse_properties

PROVIDERS = "config.providers"

_PACKAGE = "org.apache.kafka.common.config.provider"
_CLASSES = {
    "file": f"{_PACKAGE}.FileConfigProvider",
    "env": f"{_PACKAGE}.EnvVarConfigProvider",
    "dir": f"{_PACKAGE}.DirectoryConfigProvider",
}
_USUAL_NAMES = {**_CLASSES, "directory": _CLASSES["dir"]}
"""Names that are meant as a provider even where none is configured."""

_PATHS, _PATTERN = "allowed.paths", "allowlist.pattern"
_PARAMETERS = {"file": _PATHS, "env": _PATTERN, "dir": _PATHS}

_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""Kafka's pattern: provider, path, key (`ConfigTransformer`)."""

ReadFile = Callable[[str], bytes]


class _UnresolvedError(Exception):
    """A variable has no value; the text is the reason."""


class _Provider(NamedTuple):
    name: str
    kind: str
    """The key of its class in `_CLASSES`."""
    allowed: str
    """The value of its parameter: what it may read; anything if this is empty."""


class _Sources(NamedTuple):
    read: ReadFile
    environment: Mapping[str, str]


def resolve_variables(
    stated: Mapping[str, str], read: ReadFile, environment: Mapping[str, str]
) -> dict[str, str]:
    """The properties with each variable replaced by its value.

    Raises KafkaError(INVALID_CONFIG), whose message names the property and the variable.
    """
    providers = _providers(stated)
    sources = _Sources(read, environment)
    return {
        name: value
        if name.startswith(PROVIDERS) or "${" not in value
        else _replace_references(name, value, providers, sources)
        for name, value in stated.items()
    }


def _replace_references(
    name: str, value: str, providers: Mapping[str, _Provider], sources: _Sources
) -> str:
    def value_of(match: re.Match[str]) -> str:
        provider = providers.get(match[1])
        if provider is None:
            if match[1] not in _USUAL_NAMES and not providers:
                # Not meant as a variable: no provider is configured, and this is no usual name.
                return match[0]
            raise _refusal(_not_named(name, match, providers))
        try:
            return _READERS[provider.kind](provider, match[3] or "", match[4], sources)
        except _UnresolvedError as error:
            raise _refusal(f"{name} holds {match[0]}: {error}.") from None

    return _VARIABLE.sub(value_of, value)


def _not_named(name: str, match: re.Match[str], providers: Mapping[str, _Provider]) -> str:
    message = f"{name} holds {match[0]}, but {PROVIDERS} has no provider {match[1]}"
    if match[1] not in _USUAL_NAMES:
        return f"{message}; it has {', '.join(providers)}."
    return (
        f"{message}: add {PROVIDERS}={','.join([*providers, match[1]])} and"
        f" {PROVIDERS}.{match[1]}.class={_USUAL_NAMES[match[1]]}."
    )


def _of_file(provider: _Provider, path: str, key: str, sources: _Sources) -> str:
    try:
        properties = parse_properties(_text(provider, path, sources))
    except KafkaError as error:
        raise _UnresolvedError(f"{path} is not a properties file") from error
    if key not in properties:
        raise _UnresolvedError(f"{path} has no property {key}")
    return properties[key]


def _of_directory(provider: _Provider, path: str, key: str, sources: _Sources) -> str:
    if not path:
        raise _UnresolvedError("it needs a path, as in ${dir:/run/secrets:password}")
    if not key or "/" in key or key in (".", ".."):
        raise _UnresolvedError(f"{key} is not a file name")
    # Editors end a file with a line feed that is not part of the secret.
    return _text(provider, os.path.join(path, key), sources).removesuffix("\n").removesuffix("\r")


def _of_environment(provider: _Provider, path: str, key: str, sources: _Sources) -> str:
    if path:
        raise _UnresolvedError("an environment variable takes no path, as in ${env:NAME}")
    if provider.allowed and re.fullmatch(provider.allowed, key) is None:
        raise _UnresolvedError(
            f"{key} does not match {provider.allowed}, the {_PATTERN} of {provider.name}"
        )
    if key not in sources.environment:
        raise _UnresolvedError(f"there is no environment variable {key}")
    return sources.environment[key]


_READERS = {"file": _of_file, "env": _of_environment, "dir": _of_directory}


def _text(provider: _Provider, path: str, sources: _Sources) -> str:
    if not path:
        raise _UnresolvedError("it needs a path, as in ${file:/etc/secrets.properties:password}")
    folders = [os.path.normpath(each) for each in _paths(provider.allowed)]
    normal = os.path.normpath(path)
    if folders and not any(
        normal == folder or normal.startswith(f"{folder}/") for folder in folders
    ):
        raise _UnresolvedError(
            f"{path} is outside of {provider.allowed}, the {_PATHS} of {provider.name}"
        )
    try:
        return sources.read(path).decode()
    except OSError as error:
        raise _UnresolvedError(f"The file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise _UnresolvedError(f"The file {path} is not UTF-8 text") from None


def _providers(stated: Mapping[str, str]) -> dict[str, _Provider]:
    names = [part.strip() for part in stated.get(PROVIDERS, "").split(",") if part.strip()]
    for name in stated:
        owner = name.removeprefix(f"{PROVIDERS}.").partition(".")[0]
        if name.startswith(f"{PROVIDERS}.") and owner not in names:
            raise _refusal(f"{name} is set, but {PROVIDERS} does not list {owner}: add it there.")
    return {name: _provider(name, stated) for name in names}


def _provider(name: str, stated: Mapping[str, str]) -> _Provider:
    class_property = f"{PROVIDERS}.{name}.class"
    class_name = stated.get(class_property, "").strip()
    if not class_name:
        raise _refusal(f"{PROVIDERS} lists {name}, but {class_property} is not set.")
    kind = next((kind for kind, each in _CLASSES.items() if each == class_name), None)
    if kind is None:
        raise _refusal(
            f"{class_property}={class_name} is a Java class, which tierlog cannot load; use one "
            f"of {', '.join(_CLASSES.values())}."
        )
    prefix = f"{PROVIDERS}.{name}.param."
    for each in stated:
        if each.startswith(prefix) and each != prefix + _PARAMETERS[kind]:
            raise _refusal(
                f"{each} is set, but this provider has no parameter "
                f"{each.removeprefix(prefix)}: it has {_PARAMETERS[kind]}."
            )
    allowed = stated.get(prefix + _PARAMETERS[kind], "").strip()
    _check_allowed(prefix + _PARAMETERS[kind], kind, allowed)
    return _Provider(name, kind, allowed)


def _check_allowed(name: str, kind: str, allowed: str) -> None:
    if kind == "env":
        try:
            re.compile(allowed)
        except re.error:
            raise _refusal(f"{name}={allowed} is not a valid regular expression.") from None
        return
    for path in _paths(allowed):
        if not os.path.isabs(path):
            raise _refusal(f"{name} holds {path}, which is not an absolute path.")


def _paths(allowed: str) -> list[str]:
    return [part.strip() for part in allowed.split(",") if part.strip()]


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
