"""Refuses at the start what can never be a tier, however long one waits.

A store that cannot be reached, or a directory without the right to write, can be mended while the
broker runs: there is a warning, and it tries again. A protocol that only reads and a path
through a file are mistakes in the URL. The most frequent one is a bucket's web address, from the
console of its cloud.
"""

import os
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast
from urllib.parse import urlsplit

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.absolute_path import absolute_path
from ...storage.files import Files
from .remote_url import RemoteUrl
from .tier_packages import NATIVE_MODULES

LOCAL = frozenset({"file", "local"})
_KNOWN_TO_WRITE = frozenset({*LOCAL, *NATIVE_MODULES, "memory"})
"""A start with one of these does not load fsspec's registry."""

_REMOVING = ("_rm", "_rm_file", "rm", "rm_file")
_READ_ONLY = frozenset({"dask", "dvc", "generic", "git", "github", "libarchive", "wandb"})
"""File systems that remove only in part, or that are not installed here to be looked at."""

_S3_HOST = re.compile(
    r"(?:(?P<bucket>.+)\.)?s3(?:[.-](?:dualstack\.)?[a-z0-9-]+)?\.amazonaws\.com(\.cn)?"
)
_S3_CONSOLE = re.compile(r"/s3/(?:buckets|object)/(?P<bucket>[^/]+)")
_AZURE_HOST = re.compile(r"(?P<account>[^.]+)\.(?:blob|dfs)\.core\.windows\.net")
_GOOGLE_HOSTS = frozenset({"storage.googleapis.com", "storage.cloud.google.com"})
_GOOGLE_CONSOLE = re.compile(r"/storage/browser/(?:_details/)?(?P<path>[^;]+)")


class _Registry(Protocol):
    def get_filesystem_class(self, protocol: str) -> type: ...


def check_place(location: RemoteUrl, files: Files, log_dirs: Sequence[str] = ()) -> None:
    """Raise KafkaError(INVALID_CONFIG) if a local path leads through something that is a file.

    A file in the way of the broker's own directories is left to those who open them.
    """
    if location.protocol not in LOCAL:
        return
    path = local_path(location.url)
    while path and not files.exists(path):
        path = path.rpartition("/")[0]
    if any(f"{log_dir}/".startswith(f"{path}/") for log_dir in log_dirs):
        return
    if path and not files.is_directory(path):
        raise _refusal(location, f"{path} is a file: name a directory")


def check_writable(location: RemoteUrl) -> None:
    """Raise KafkaError(INVALID_CONFIG) if the protocol's file system only reads."""
    protocol = location.protocol
    if protocol in ("http", "https"):
        raise _refusal(
            location, f"nothing can be written with {protocol}://. {_of_web_address(location.url)}"
        )
    if _only_reads(protocol):
        hint = "s3://bucket/prefix, file:///path and others are in docs/tiers.md"
        raise _refusal(location, f"{protocol}:// cannot write and remove objects; {hint}")


def local_path(url: str) -> str:
    """The path of a `file://` URL. Raises KafkaError(INVALID_CONFIG) if it is in no directory."""
    # As in fsspec, a path and not a host follows `file://`; it may begin with `~`.
    return absolute_path(os.path.expanduser(url.partition("://")[2]))


def _only_reads(protocol: str) -> bool:
    if protocol in _READ_ONLY or protocol in _KNOWN_TO_WRITE:
        return protocol in _READ_ONLY
    registry = cast("_Registry", import_module("fsspec.registry"))
    try:
        file_system = registry.get_filesystem_class(protocol)
    except (ImportError, ValueError, AttributeError):
        # `check_packages` says what is missing.
        return False
    spec, asyn = import_module("fsspec.spec"), import_module("fsspec.asyn")
    bases: list[object] = [spec.AbstractFileSystem, asyn.AsyncFileSystem]
    return not any(_has_own(file_system, name, bases) for name in _REMOVING)


def _has_own(file_system: object, name: str, bases: Sequence[object]) -> bool:
    own: object = getattr(file_system, name, None)
    return own is not None and all(own is not getattr(base, name, None) for base in bases)


def _of_web_address(url: str) -> str:
    """The URL of the bucket that a web address shows, as far as it can be seen."""
    parts = urlsplit(url)
    host, path = (parts.hostname or "").lower(), parts.path.strip("/")
    if match := _S3_HOST.fullmatch(host):
        bucket = match["bucket"]
        place = "/".join(each for each in (bucket, path) if each)
        return f"Use s3://{place or 'bucket/prefix'}"
    if host.endswith("console.aws.amazon.com"):
        match = _S3_CONSOLE.match(parts.path)
        return f"Use s3://{match['bucket'] if match else 'bucket'}/prefix"
    if host in _GOOGLE_HOSTS:
        return f"Use gs://{path or 'bucket/prefix'}"
    if host == "console.cloud.google.com":
        match = _GOOGLE_CONSOLE.match(parts.path)
        return f"Use gs://{match['path'].strip('/') if match else 'bucket/prefix'}"
    if match := _AZURE_HOST.fullmatch(host):
        name = f"rsm.config.option.account_name={match['account']}"
        return f"Use abfs://{path or 'container/prefix'} with {name}"
    server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return f"Use s3://bucket/prefix with rsm.config.option.endpoint_url={server} for a server of S3"


def _refusal(location: RemoteUrl, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG, f"{location} cannot be a remote tier: {reason.rstrip('.')}."
    )
