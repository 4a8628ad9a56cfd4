"""Finds options of a tier's file system that have no effect, usually misspelt ones.

fsspec's file systems accept any keyword and silently ignore unknown ones. The known names are
listed here, so that a start imports no library for them; only for a name that is not listed is the
installed library inspected, because it may be newer. Where a library passes its keywords on
(`is_open`), only a name close to a known one is reported, so that no valid name is rejected.
"""

import inspect
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

from .remote_url import OPTION_PREFIX, OptionValue, RemoteUrl
from .tier_packages import NATIVE_MODULES

_CLOSE = 0.8
_NEAR = 0.6


class _Names(NamedTuple):
    """The option names at one level of nesting."""

    options: frozenset[str]
    library: tuple[str, str] | None = None
    """The module and the function that takes them as keywords."""
    is_open: bool = False


def _names(text: str, library: tuple[str, str] | None = None, *, is_open: bool = False) -> _Names:
    return _Names(frozenset(text.split()), library, is_open)


_FSSPEC_NAMES = _names(
    "asynchronous batch_size listings_expiry_time loop max_paths skip_instance_cache "
    "use_listings_cache"
)

_S3 = _names(
    "anon cache_regions client_kwargs config_kwargs default_block_size default_cache_type "
    "default_fill_cache endpoint_url fixed_upload_size key local_expiry_check max_concurrency "
    "password profile requester_pays s3_additional_kwargs secret session token use_ssl username "
    "version_aware",
    ("s3fs", "S3FileSystem.__init__"),
)
_GS = _names(
    "access block_size cache_timeout check_connection consistency default_location endpoint_url "
    "project requester_pays requests_timeout secure_serialize session_kwargs timeout token "
    "version_aware",
    ("gcsfs.core", "GCSFileSystem.__init__"),
)
_ABFS = _names(
    "account_host account_key account_name anon assume_container_exists blocksize client_id "
    "client_secret connection_string connection_timeout credential default_cache_type "
    "default_fill_cache location_mode max_concurrency read_timeout request_session sas_token "
    "socket_timeout tenant_id timeout version_aware",
    ("adlfs", "AzureBlobFileSystem.__init__"),
    is_open=True,
)
_SFTP = _names(
    "allow_agent auth_strategy auth_timeout banner_timeout channel_timeout compress "
    "disabled_algorithms host hostname key_filename look_for_keys passphrase password pkey port "
    "sock temppath timeout transport_factory username",
    ("paramiko.client", "SSHClient.connect"),
)
_WEBHDFS = _names(
    "data_proxy host kerb_kwargs kerberos password port proxy_to session_cert session_verify "
    "token use_https user",
    ("fsspec.implementations.webhdfs", "WebHDFS.__init__"),
)

_PROTOCOLS = {
    "s3_store": _S3,
    "gs_store": _GS,
    "abfs_store": _ABFS,
    "sftp": _SFTP,
    "ssh": _SFTP,
    "webhdfs": _WEBHDFS,
    "file": _names("auto_mkdir"),
    "local": _names("auto_mkdir"),
    "memory": _names(""),
}

_NESTED = {
    "s3_store": {
        "client_kwargs": _names(
            "api_version aws_access_key_id aws_account_id aws_secret_access_key aws_session_token "
            "config endpoint_url region_name use_ssl verify",
            ("aiobotocore.session", "AioSession._create_client"),
        ),
        "config_kwargs": _names(
            "account_id_endpoint_mode auth_scheme_preference client_cert client_context_params "
            "connect_timeout connector_args defaults_mode disable_request_compression "
            "endpoint_discovery_enabled http_session_cls ignore_configured_endpoint_urls "
            "inject_host_prefix max_pool_connections parameter_validation proxies proxies_config "
            "read_timeout region_name request_checksum_calculation "
            "request_min_compression_size_bytes response_checksum_validation retries s3 "
            "s3_disable_express_session_auth signature_version sigv4a_signing_region_set "
            "tcp_keepalive use_dualstack_endpoint use_fips_endpoint user_agent user_agent_appid "
            "user_agent_extra warm_up_loader_caches",
            is_open=True,
        ),
        "config_kwargs.s3": _names(
            "addressing_style payload_signing_enabled us_east_1_regional_endpoint "
            "use_accelerate_endpoint use_arn_region use_dualstack_endpoint",
            is_open=True,
        ),
        "config_kwargs.retries": _names("max_attempts mode total_max_attempts", is_open=True),
    }
}


def unknown_options(location: RemoteUrl, prefix: str) -> str | None:
    """A sentence about the options that have no effect; None if there are none.

    `prefix` is the part of the property names before `option.`.
    """
    kind = NATIVE_MODULES.get(location.protocol, location.protocol)
    names = _PROTOCOLS.get(kind)
    if names is None:
        names = _names("", _class_of(location.protocol), is_open=True)
    names = names._replace(options=names.options | _FSSPEC_NAMES.options)
    unknown = list(_unknown(location.options, names, ""))
    for path, nested in _NESTED.get(kind, {}).items():
        unknown += _unknown(_inside(location.options, path), nested, f"{path}.")
    if not unknown:
        return None
    unknown_names = ", ".join(
        prefix + OPTION_PREFIX + name + (f" (did you mean {near}?)" if near else "")
        for name, near in unknown
    )
    return f"The file system of {location.protocol}:// has no such option: {unknown_names}."


def _unknown(
    options: Mapping[str, OptionValue], names: _Names, path: str
) -> Iterator[tuple[str, str]]:
    """The unknown names, each with the nearest known one."""
    doubtful = [option for option in options if option not in names.options]
    valid = names.options
    if doubtful:
        keywords, is_closed = _keywords(names.library)
        if not is_closed and names.library is not None:
            # The library is not installed or cannot be inspected.
            names = names._replace(is_open=True)
        valid |= keywords
    for each in doubtful:
        if each in valid:
            continue
        near = get_close_matches(each.lower(), valid, 1, _CLOSE if names.is_open else _NEAR)
        if near or not names.is_open:
            yield path + each, path + near[0] if near else ""


def _inside(options: Mapping[str, OptionValue], path: str) -> Mapping[str, OptionValue]:
    for name in path.split("."):
        inner = options.get(name)
        if not isinstance(inner, dict):
            return {}
        options = inner
    return options


def _class_of(protocol: str) -> tuple[str, str] | None:
    """Module and `__init__` of the class that fsspec registers for a protocol; None if none."""
    entry: dict[str, Any] = import_module("fsspec.registry").known_implementations.get(protocol, {})
    module, _, name = str(entry.get("class", "")).rpartition(".")
    return (module, f"{name}.__init__") if module else None


def _keywords(library: tuple[str, str] | None) -> tuple[frozenset[str], bool]:
    """The keyword names of a library function, and whether it could be inspected."""
    if library is None:
        return frozenset(), False
    module, path = library
    try:
        target: Any = import_module(module)
        for name in path.split("."):
            target = getattr(target, name)
        return frozenset(inspect.signature(target).parameters), True
    except (ImportError, AttributeError, TypeError, ValueError):
        return frozenset(), False
