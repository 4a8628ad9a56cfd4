"""What a tier's URL needs is looked for before anything is started."""

import sys

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.tiering.store.impossible_tiers import check_writable
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.store.tier_packages import check_packages


def refusal(url: str) -> str:
    with pytest.raises(KafkaError) as caught:
        check_packages(RemoteUrl(url))
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        *("file:///tier", "local:///tier", "memory://tier", "s3://bucket/x", "gs://bucket/x"),
        *("abfs://container/x", "sftp://host/x", "webhdfs://host/x"),
    ],
)
def test_what_is_installed_is_enough(url: str) -> None:
    check_packages(RemoteUrl(url))


@pytest.mark.parametrize(
    ("url", "package"),
    [
        *(("s3://bucket/x", "s3fs"), ("gcs://bucket/x", "gcsfs"), ("az://bucket/x", "adlfs")),
        ("hdfs://name-node/x", "pyarrow"),
    ],
)
def test_a_package_that_is_missing_is_named_with_what_installs_it(
    url: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert refusal(url) == (
        f"The remote tier {url} needs the Python package {package!r}, which is not installed:"
        f" pip install {package}"
    )


def test_a_package_of_another_file_system_is_named_too() -> None:
    assert refusal("oss://bucket/x") == (
        "The remote tier oss://bucket/x needs the Python package 'ossfs', which is not installed:"
        " pip install ossfs"
    )


def test_a_protocol_that_nobody_has_is_named_with_the_nearest() -> None:
    assert refusal("s4://user:pass@bucket/x") == (
        "The remote tier s4://***@bucket/x cannot be opened: there is no file system for s4://; did"
        " you mean s3://?"
    )
    assert refusal("qqqqqqq://x") == (
        "The remote tier qqqqqqq://x cannot be opened: there is no file system for qqqqqqq://; see"
        " docs/tiers.md."
    )


def test_a_file_system_that_its_package_has_no_more_is_refused() -> None:
    """Gen1 of Azure's Data Lake is retired; fsspec still looks for it in adlfs."""
    location = RemoteUrl("adl://store/x")
    check_writable(location)
    with pytest.raises(KafkaError, match="The package of adl:// has no such file system") as raised:
        check_packages(location)
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert "\n" not in raised.value.message
