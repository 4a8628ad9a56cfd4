"""Checks before a start that this Python has the packages that a tier's URL needs.

It imports nothing except, for protocols without a store of ours, fsspec's registry and the file
system that it names. A package is only located, because importing s3fs would slow each start.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

from ...clients.errors import ErrorCode, KafkaError
from .remote_url import RemoteUrl

NATIVE_MODULES = {
    "s3": "s3_store",
    "s3a": "s3_store",
    "gs": "gs_store",
    "gcs": "gs_store",
    "abfs": "abfs_store",
    "abfss": "abfs_store",
    "az": "abfs_store",
}
"""The protocols with a store of ours, and its module."""

PACKAGES = {"s3_store": "s3fs", "gs_store": "gcsfs", "abfs_store": "adlfs"}
"""The package that each of these modules is made on."""
_PYTHON_PROTOCOLS = frozenset({"file", "local", "memory"})
_IMPORTED_LATE = {"hdfs": "pyarrow", "arrow_hdfs": "pyarrow"}
"""Packages that fsspec imports only when a file system of these protocols is opened."""


class _Registry(Protocol):
    known_implementations: dict[str, Any]

    def get_filesystem_class(self, protocol: str) -> type: ...


def check_packages(location: RemoteUrl) -> None:
    """Raise KafkaError(INVALID_CONFIG) for an unknown protocol or a missing package."""
    protocol = location.protocol
    if protocol in _PYTHON_PROTOCOLS:
        return
    if protocol in NATIVE_MODULES:
        package = PACKAGES[NATIVE_MODULES[protocol]]
        if find_spec(package) is None:
            raise _refusal(missing_package_message(location, package))
        return
    late = _IMPORTED_LATE.get(protocol)
    if late is not None and find_spec(late) is None:
        raise _refusal(missing_package_message(location, late))
    registry = cast("_Registry", import_module("fsspec.registry"))
    try:
        registry.get_filesystem_class(protocol)
    except ImportError as error:
        raise _refusal(missing_package_message(location, package_of(protocol, error))) from error
    except ValueError as error:
        raise _refusal(_unknown_message(location, registry)) from error
    except AttributeError as error:
        # adlfs has no more what fsspec looks for behind adl://, and says in several lines why.
        why = " ".join(str(error).split()).rstrip(".")
        raise _refusal(f"The package of {protocol}:// has no such file system: {why}.") from error


def missing_package_message(location: RemoteUrl, package: str) -> str:
    """A message that names the missing package and the command that installs it."""
    return (
        f"The remote tier {location} needs the Python package {package!r}, which is not installed:"
        f" pip install {package}"
    )


def package_of(protocol: str, error: ImportError) -> str:
    """The package to install: the file system's own rather than one that it imports."""
    package = PACKAGES.get(NATIVE_MODULES.get(protocol, ""))
    return package or getattr(error.__cause__, "name", None) or error.name or str(error)


def _unknown_message(location: RemoteUrl, registry: _Registry) -> str:
    import difflib

    protocols = [*NATIVE_MODULES, *registry.known_implementations]
    near = difflib.get_close_matches(location.protocol, protocols, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}://?" if near else "see docs/tiers.md."
    return (
        f"The remote tier {location} cannot be opened: there is no file system for"
        f" {location.protocol}://; {hint}"
    )


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
