"""The location of the tier: an fsspec URL and the options of its file system.

    rsm.config.url=s3://bucket/prefix
    rsm.config.option.endpoint_url=http://127.0.0.1:9000
    rsm.config.option.client_kwargs.region_name=eu-central-1

Option values are text; `true`, `false` and whole numbers become booleans and integers (secrets stay
text), and a dot in an option's name nests it. A URL comes only from the operator's own file, and
chained URLs (`::`) are refused: one could reach file systems other than the one that it names.

Nothing here imports fsspec, so that reading a configuration stays cheap. `tier_packages.py` checks
once, at the start, that the protocol is known and its package installed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit, urlunsplit

from ...clients.errors import ErrorCode, KafkaError
from ...clients.sasl.secret import mask

URL_PROPERTY = "url"
OPTION_PREFIX = "option."

OptionValue = str | int | bool | dict[str, "OptionValue"]

_SECRET_NAME = re.compile(
    r"key|secret|token|password|passphrase|credential|connection_string|sas|auth", re.IGNORECASE
)
_PLAIN_NAME = re.compile(r"look_for_keys|.*_timeout|.*file(name)?|.*_polic(y|ies)", re.IGNORECASE)
"""Names that only sound secret: switches, times and paths."""
_CONNECTION_SECRET = re.compile(r"(?:AccountKey|SharedAccessSignature)=([^;]+)", re.IGNORECASE)
_SIGNED = re.compile(
    r"((?:sig|signature|delegation|[a-z_-]*token|x-amz-credential|awsaccesskeyid)=)[^&\s\"';)]+",
    re.IGNORECASE,
)
"""Credentials from the environment or the machine that libraries put into addresses."""

_NEVER = {
    "sshfs": "the package sshfs ignores byte ranges; use sftp:// with paramiko",
} | dict.fromkeys(
    ("blockcache", "cached", "dir", "filecache", "reference", "simplecache"),
    "it wraps another file system, which only options can name",
)

_WITH_BUCKET = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})

_PROTOCOL = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RemoteUrl:
    """A validated location. Its `str()` is safe to print."""

    url: str = field(repr=False)
    options: Mapping[str, OptionValue] = field(default_factory=dict[str, OptionValue], repr=False)

    def __post_init__(self) -> None:
        protocol, separator, _ = self.url.partition("://")
        if "::" in self.url:
            raise _invalid("chained URLs (with '::') are not allowed for the remote tier")
        if not separator or not _PROTOCOL.fullmatch(protocol):
            raise _invalid(
                "the remote tier needs a URL with a protocol, "
                "such as file:///var/lib/tierlog/remote or s3://bucket/prefix"
            )
        if protocol.lower() in _WITH_BUCKET and not urlsplit(self.url).netloc:
            raise _invalid(f"{self} has no bucket: use {protocol}://bucket/prefix")
        reason = _NEVER.get(protocol.lower())
        if reason is not None:
            raise _invalid(f"{protocol}:// cannot hold a remote tier: {reason}")

    @property
    def protocol(self) -> str:
        return self.url.partition("://")[0].lower()

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        url = self.url
        if "@" in parts.netloc:
            host = parts.netloc.rpartition("@")[2]
            url = urlunsplit(parts._replace(netloc=f"***@{host}"))
        return _SIGNED.sub(r"\1***", url)

    def redact(self, text: str) -> str:
        """`text` without the values of secret-looking options and the URL's user info."""
        for secret in self._secrets():
            text = mask(text, secret)
        return _SIGNED.sub(r"\1***", text)

    def _secrets(self) -> list[str]:
        secrets = [urlsplit(self.url).netloc.rpartition("@")[0]]
        password = urlsplit(self.url).password
        secrets.append(password or "")
        secrets.extend(_secret_values(self.options, inherited=False))
        # Each part of a connection string is a secret too.
        secrets += [part for secret in secrets for part in _CONNECTION_SECRET.findall(secret)]
        # An address in a message contains them URL-encoded.
        secrets += [quote(secret, safe="") for secret in secrets]
        # Longest first: replacing a secret inside another would leave the rest of it visible.
        return sorted({secret for secret in secrets if secret}, key=len, reverse=True)


def _secret_values(options: Mapping[str, OptionValue], *, inherited: bool) -> list[str]:
    secrets: list[str] = []
    for name, value in options.items():
        secret = inherited or _is_secret(name)
        if isinstance(value, dict):
            secrets.extend(_secret_values(value, inherited=secret))
        elif secret and not isinstance(value, bool):
            secrets.append(str(value))
    return secrets


def remote_url(properties: Mapping[str, str]) -> RemoteUrl:
    """Read the properties of the storage manager, their `rsm.config.` prefix already stripped.

    Raises KafkaError(INVALID_CONFIG). Properties other than the URL and options are ignored.
    """
    url = properties.get(URL_PROPERTY, "").strip()
    if not url:
        raise _invalid("the remote tier has no URL: set rsm.config.url")
    options: dict[str, OptionValue] = {}
    for name, text in properties.items():
        if name.startswith(OPTION_PREFIX):
            path = name.removeprefix(OPTION_PREFIX).split(".")
            if not all(path):
                raise _invalid(f"{name} is not an option: it is option.<name>=value")
            _nest(options, path, _value(path[-1], text.strip()))
    return RemoteUrl(url, options)


def _nest(options: dict[str, OptionValue], path: list[str], value: OptionValue) -> None:
    for name in path[:-1]:
        inner = options.setdefault(name, {})
        if not isinstance(inner, dict):
            raise _invalid(f"option {name} is given both a value and options of its own")
        options = inner
    if isinstance(options.get(path[-1]), dict):
        raise _invalid(f"option {path[-1]} is given both a value and options of its own")
    options[path[-1]] = value


def _is_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _PLAIN_NAME.fullmatch(name)


def _value(name: str, text: str) -> OptionValue:
    if _is_secret(name):
        # A password of digits is still a password.
        return text
    if text.lower() in ("true", "false"):
        # Case-insensitive as in Kafka: the text `False` is truthy and would turn an option on.
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"0|[1-9][0-9]{0,17}", text) else text


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value for rsm.config: {reason}")
