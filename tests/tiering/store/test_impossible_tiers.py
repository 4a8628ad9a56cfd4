"""URLs that can never be a tier are refused, with the URL that was meant as far as one can see."""

from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.storage.files import OsFiles
from tierlog.tiering.store.impossible_tiers import check_place, check_writable
from tierlog.tiering.store.remote_url import RemoteUrl


def refusal(url: str) -> str:
    location = RemoteUrl(url)
    with pytest.raises(KafkaError) as refused:
        check_writable(location)
        check_place(location, OsFiles())
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert "\n" not in refused.value.message
    return refused.value.message


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("https://bucket.s3.amazonaws.com/a/b", "Use s3://bucket/a/b."),
        ("https://my.bucket.s3.eu-central-1.amazonaws.com/a/", "Use s3://my.bucket/a."),
        ("https://b.s3.dualstack.us-west-2.amazonaws.com", "Use s3://b."),
        ("https://s3.eu-central-1.amazonaws.com/bucket/a", "Use s3://bucket/a."),
        ("https://s3-us-west-2.amazonaws.com/bucket", "Use s3://bucket."),
        ("https://s3.amazonaws.com", "Use s3://bucket/prefix."),
        (
            "https://eu-central-1.console.aws.amazon.com/s3/buckets/mine?region=eu-central-1",
            "Use s3://mine/prefix.",
        ),
        ("https://storage.googleapis.com/bucket/a", "Use gs://bucket/a."),
        ("https://console.cloud.google.com/storage/browser/mine;tab=objects", "Use gs://mine."),
        (
            "https://me.blob.core.windows.net/container/a",
            "Use abfs://container/a with rsm.config.option.account_name=me.",
        ),
        (
            "http://user:hush@127.0.0.1:9000/bucket",
            "Use s3://bucket/prefix with rsm.config.option.endpoint_url=http://127.0.0.1:9000 for a"
            " server of S3.",
        ),
    ],
)
def test_a_web_address_is_answered_with_the_url_of_the_bucket(url: str, meant: str) -> None:
    said = refusal(url)
    assert said.endswith(f"nothing can be written with {url.partition(':')[0]}://. {meant}")
    assert "hush" not in said


@pytest.mark.parametrize("protocol", ["github", "git", "zip", "tar", "data", "gist", "generic"])
def test_a_file_system_that_only_reads_is_no_tier(protocol: str) -> None:
    said = refusal(f"{protocol}://somewhere/x")
    assert f"{protocol}:// cannot write and remove objects; s3://bucket/prefix" in said


@pytest.mark.parametrize(
    "url",
    [
        *("s3://b/x", "gs://b/x", "abfs://b/x", "memory://x", "sftp://h/x", "webhdfs://h/x"),
        *("ftp://h/x", "oss://not/installed", "s4://unknown"),
    ],
)
def test_what_can_write_or_is_not_known_is_not_refused_here(url: str) -> None:
    check_writable(RemoteUrl(url))


def test_a_path_through_a_file_is_no_tier(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in ("file", "file/below", "file/below/more"):
        said = refusal(f"file://{tmp_path}/{path}")
        assert said.endswith(
            f" cannot be a remote tier: {tmp_path}/file is a file: name a directory."
        )


def test_a_directory_that_is_not_there_yet_may_become_one(tmp_path: Path) -> None:
    check_place(RemoteUrl(f"file://{tmp_path}"), OsFiles())
    check_place(RemoteUrl(f"file://{tmp_path}/new/and/deep"), OsFiles())


def test_a_directory_without_the_right_to_write_is_mended_while_the_broker_runs() -> None:
    check_place(RemoteUrl("file:///proc/tierlog/x"), OsFiles())
