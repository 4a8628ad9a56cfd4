"""Options that a tier's file system would silently ignore are told, and valid ones never are."""

import inspect
import sys
from importlib import import_module
from typing import Any

import pytest

from tierlog.tiering.store.option_names import unknown_options
from tierlog.tiering.store.remote_url import remote_url

PREFIX = "rsm.config."


def refusal_of(url: str, *names: str) -> str | None:
    stated = {f"option.{name}": "x" for name in names}
    return unknown_options(remote_url({"url": url, **stated}), PREFIX)


@pytest.mark.parametrize(
    ("url", "name", "near"),
    [
        ("s3://b/x", "endpoint_ur", "endpoint_url"),
        ("s3a://b/x", "Endpoint_URL", "endpoint_url"),
        ("s3://b/x", "client_kwarg.region_name", "client_kwargs"),
        ("s3://b/x", "client_kwargs.region", "client_kwargs.region_name"),
        ("s3://b/x", "config_kwargs.conect_timeout", "config_kwargs.connect_timeout"),
        ("s3://b/x", "config_kwargs.s3.adressing_style", "config_kwargs.s3.addressing_style"),
        ("gs://b/x", "tokn", "token"),
        ("abfs://c/x", "conection_string", "connection_string"),
        ("sftp://h/x", "user_name", "username"),
        ("webhdfs://h/x", "usr", "user"),
        ("file:///x", "auto_mkdirs", "auto_mkdir"),
        ("ftp://h/x", "usrname", "username"),
    ],
)
def test_a_misspelt_option_is_reported_with_the_nearest_name(
    url: str, name: str, near: str
) -> None:
    protocol = url.partition("://")[0]
    where = name.rpartition(".")[0] if "kwarg." in name else name
    assert refusal_of(url, name) == (
        f"The file system of {protocol}:// has no such option: {PREFIX}option.{where} (did you "
        f"mean {near}?)."
    )


def test_all_of_them_stand_in_one_sentence() -> None:
    sentence = refusal_of("s3://b/x", "endpoint", "key", "secret", "nonsense")
    assert sentence == (
        "The file system of s3:// has no such option: rsm.config.option.endpoint (did you mean "
        "endpoint_url?), rsm.config.option.nonsense."
    )


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("s3://b/x", ("key", "secret", "profile", "client_kwargs.verify", "use_listings_cache")),
        ("s3://b/x", ("s3_additional_kwargs.ServerSideEncryption", "config_kwargs.s3.anything")),
        ("gs://b/x", ("token", "project", "session_kwargs.trust_env")),
        # Handed on to azure's credentials, whose keywords nobody lists.
        ("abfs://c/x", ("account_name", "exclude_cli_credential", "managed_identity_client_id")),
        ("sftp://h/x", ("port", "username", "key_filename", "look_for_keys")),
        ("hdfs://h/x", ("user", "extra_conf.a", "whatever_it_may_take")),
        ("memory://x", ()),
        ("nosuch://x", ("anything",)),
    ],
)
def test_what_may_be_valid_is_not_reported(url: str, names: tuple[str, ...]) -> None:
    assert refusal_of(url, *names) is None


def test_a_start_with_known_options_imports_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert refusal_of("s3://b/x", "key", "client_kwargs.region_name") is None
    # Who is not there cannot be asked: then only what nearly is a known name is told.
    assert refusal_of("s3://b/x", "added_by_a_newer_version") is None
    assert "endpoint_url" in (refusal_of("s3://b/x", "endpoint_ur") or "")


@pytest.mark.parametrize(
    ("protocol", "module", "name"),
    [
        ("s3", "s3fs", "S3FileSystem"),
        ("gs", "gcsfs.core", "GCSFileSystem"),
        ("abfs", "adlfs", "AzureBlobFileSystem"),
        ("webhdfs", "fsspec.implementations.webhdfs", "WebHDFS"),
    ],
)
def test_every_keyword_of_the_installed_library_is_known(
    protocol: str, module: str, name: str
) -> None:
    found: Any = getattr(import_module(module), name)
    keywords = list(inspect.signature(found.__init__).parameters.values())[1:-1]
    assert len(keywords) > 10
    assert refusal_of(f"{protocol}://b/x", *(each.name for each in keywords)) is None


def test_switches_are_read_as_kafka_reads_them() -> None:
    """The text `False` is true to every library: it would have switched on what it should not."""
    stated = {"url": "s3://b/x", "option.anon": "False", "option.use_ssl": "TRUE"}
    assert remote_url(stated).options == {"anon": False, "use_ssl": True}
