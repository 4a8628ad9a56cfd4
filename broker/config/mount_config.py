"""The configuration of mounts: tiers of other clusters that this broker serves read-only.

    tierlog.mount.archive.url=s3://their-bucket/prefix
    tierlog.mount.archive.option.endpoint_url=http://10.0.0.5:9000
    tierlog.mount.archive.topics=orders,payments      default: all topics
    tierlog.mount.archive.refresh.ms=30000            how often to look for new data

The name in the middle consists of letters, digits and underscores. The URL and the options have
the format of the broker's own tier (`tiering/store/remote_url.py`).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...replication.topic_names import validate_topic_name
from ...tiering.store.remote_url import OPTION_PREFIX, URL_PROPERTY, RemoteUrl, remote_url

MOUNT_PREFIX = "tierlog.mount."
MOUNTED_TOPICS_FILE = "mounted-topics"
"""A file in the first log directory that lists the topics that came from a mount."""

_REFRESH_MS = 30_000
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_REFRESH_PROPERTY = "refresh.ms"
_TOPICS_PROPERTY = "topics"
_NO_SUCH = "a mount has no such property; it has url, topics, refresh.ms and option.<name>"
_NO_TIME = "is not a time in ms: set a whole number from 1 to 999999999999"
_NO_NAME = (
    "it is not tierlog.mount.<name>.<property>, with a name of up to 64 letters, digits and "
    "underscores"
)
_NO_TOPICS = "it names no topic: leave it out, and all topics are served"


class MountConfig(NamedTuple):
    """One mounted tier."""

    name: str
    location: RemoteUrl
    topics: frozenset[str]
    """The topics that are served; all of them if this is empty."""
    refresh_ms: int


def read_mounts(stated: Mapping[str, str], own: RemoteUrl | None) -> tuple[MountConfig, ...]:
    """The mounts in the properties, sorted by name. Raises KafkaError(INVALID_CONFIG)."""
    by_name: dict[str, dict[str, str]] = {}
    for name, value in stated.items():
        if name.startswith(MOUNT_PREFIX):
            mount_name, _, rest = name.removeprefix(MOUNT_PREFIX).partition(".")
            if not _NAME.fullmatch(mount_name) or not rest:
                raise _invalid(name, _NO_NAME)
            by_name.setdefault(mount_name, {})[rest] = value.strip()
    mounts = tuple(_mount(name, by_name[name]) for name in sorted(by_name))
    locations = [] if own is None else [own.url.rstrip("/")]
    for mount in mounts:
        url = mount.location.url.rstrip("/")
        if url in locations:
            raise _invalid(f"{MOUNT_PREFIX}{mount.name}.url", "this broker already uses this tier")
        locations.append(url)
    return mounts


def _mount(name: str, properties: Mapping[str, str]) -> MountConfig:
    for each in properties:
        names = (URL_PROPERTY, _TOPICS_PROPERTY, _REFRESH_PROPERTY)
        if each not in names and not each.startswith(OPTION_PREFIX):
            raise _invalid(f"{MOUNT_PREFIX}{name}.{each}", _NO_SUCH)
    if not properties.get(URL_PROPERTY):
        raise _invalid(f"{MOUNT_PREFIX}{name}.url", "a mount requires it")
    refresh = properties.get(_REFRESH_PROPERTY, str(_REFRESH_MS))
    if not re.fullmatch(r"[1-9][0-9]{0,11}", refresh):
        raise _invalid(f"{MOUNT_PREFIX}{name}.{_REFRESH_PROPERTY}", f"{refresh!r} {_NO_TIME}")
    try:
        location = remote_url(properties)
    except KafkaError as error:
        raise _invalid(f"{MOUNT_PREFIX}{name}.url", error.message) from error
    return MountConfig(name, location, _topics(name, properties), int(refresh))


def _topics(name: str, properties: Mapping[str, str]) -> frozenset[str]:
    stated = properties.get(_TOPICS_PROPERTY, "")
    topics = frozenset(filter(None, (part.strip() for part in stated.split(","))))
    property_name = f"{MOUNT_PREFIX}{name}.{_TOPICS_PROPERTY}"
    if stated and not topics:
        raise _invalid(property_name, _NO_TOPICS)
    for topic in topics:
        try:
            validate_topic_name(topic)
        except KafkaError as error:
            raise _invalid(property_name, error.message.rstrip(".")) from error
    return topics


def _invalid(name: str, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid property {name}: {reason}.")
