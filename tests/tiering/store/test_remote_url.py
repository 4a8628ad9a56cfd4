"""What an operator may write as the place of the tier, and what never shows of it."""

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.tiering.store.remote_url import RemoteUrl, remote_url


def test_options_become_what_they_look_like_and_nest_at_dots() -> None:
    location = remote_url(
        {
            "url": "s3://bucket/prefix",
            "option.key": "0123",
            "option.secret": "42",
            "option.anon": "false",
            "option.default_block_size": "1048576",
            "option.client_kwargs.region_name": "eu-central-1",
            "somebody.elses": "property",
        }
    )
    assert location.options == {
        "key": "0123",
        "secret": "42",
        "anon": False,
        "default_block_size": 1048576,
        "client_kwargs": {"region_name": "eu-central-1"},
    }


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({}, id="no URL"),
        pytest.param({"url": ""}, id="empty"),
        pytest.param({"url": "/var/lib/remote"}, id="no protocol"),
        pytest.param({"url": "://x"}, id="empty protocol"),
        pytest.param({"url": "s3://"}, id="no bucket"),
        pytest.param({"url": "gs:///prefix"}, id="a path and no bucket"),
        pytest.param({"url": "abfs://?x"}, id="no container"),
        pytest.param({"url": "simplecache::s3://bucket"}, id="chained"),
        pytest.param({"url": "file:///a::b://c"}, id="chained later"),
        pytest.param({"url": "s3://b", "option.a": "1", "option.a.b": "2"}, id="value and options"),
        pytest.param({"url": "s3://b", "option.a.b": "1", "option.a": "2"}, id="options and value"),
    ],
)
def test_a_place_that_cannot_be_is_refused_in_one_sentence(properties: dict[str, str]) -> None:
    with pytest.raises(KafkaError) as refused:
        remote_url(properties)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert "\n" not in refused.value.message


def test_nothing_secret_is_printed() -> None:
    location = remote_url(
        {
            "url": "sftp://alice:hunter2@host/dir",
            "option.key": "AKIA123",
            "option.client_kwargs.aws_session_token": "tok/en",
            "option.credentials.inner": "deep",
            "option.endpoint": "visible",
        }
    )
    assert str(location) == "sftp://***@host/dir"
    assert "hunter2" not in repr(location)
    redacted = location.redact("AKIA123 and tok/en and deep and alice:hunter2 failed at visible")
    assert redacted == "*** and *** and *** and *** failed at visible"


def test_a_plain_url_is_printed_as_it_is() -> None:
    assert str(RemoteUrl("FILE:///x")) == "FILE:///x"
    assert RemoteUrl("FILE:///x").protocol == "file"


@pytest.mark.parametrize("protocol", ["sshfs", "dir", "simplecache", "filecache", "reference"])
def test_file_systems_that_hide_another_or_ignore_ranges_are_refused(protocol: str) -> None:
    with pytest.raises(KafkaError, match=f"{protocol}:// cannot hold a remote tier"):
        RemoteUrl(f"{protocol}://host/path")


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    """Emulators take `test` for both: a line whose every `test` is starred cannot be read."""
    location = remote_url(
        {
            "url": "s3://test-bucket/contest/latest-a",
            "option.key": "test",
            "option.secret": "test",
        }
    )
    address = "http://127.0.0.1:4566/test-bucket?list-type=2&prefix=contest%2Flatest-a"
    assert location.redact(f"Could not connect: {address}") == f"Could not connect: {address}"
    redacted = location.redact("key 'test', test:test, Credential=test/20260101/s3, test")
    assert redacted == "key '***', ***:***, Credential=***/20260101/s3, ***"


@pytest.mark.parametrize(
    ("secret", "text", "expected"),
    [
        ("hunter2", "u%3Ahunter2%40host", "u%3A***%40host"),
        ("hunter2", "'sent:\\nhunter2\\n'", "'sent:\\n***\\n'"),
        ("hunter2", "at hunter23", "at hunter23"),
        ("a!b?", "a!b?x", "***x"),
        ("!b?a", "x!b?a", "x***"),
    ],
)
def test_a_short_secret_is_hidden_behind_what_is_no_letter(
    secret: str, text: str, expected: str
) -> None:
    location = remote_url({"url": "s3://bucket", "option.secret": secret})
    assert location.redact(text) == expected


def test_a_long_secret_is_hidden_wherever_it_stands() -> None:
    location = remote_url({"url": "s3://bucket", "option.secret": "8letters"})
    assert location.redact("a8lettersb 8letters") == "a***b ***"


def test_secrets_inside_a_connection_string_are_hidden_one_by_one() -> None:
    key = "YS1rZXk+/w=="
    location = remote_url(
        {
            "url": "abfs://container/tier",
            "option.connection_string": f"AccountName=me;AccountKey={key};EndpointSuffix=x",
        }
    )
    assert location.redact(f"no {key}, no") == "no ***, no"
    assert location.redact("?key=YS1rZXk%2B%2Fw%3D%3D&x") == "?key=***&x"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("GET /b?sv=1&sig=abc%3D&se=2", "GET /b?sv=1&sig=***&se=2"),
        ("?op=OPEN&delegation=HAAE-x_y&offset=1", "?op=OPEN&delegation=***&offset=1"),
        ("X-Amz-Security-Token=FQoG/x==; more", "X-Amz-Security-Token=***; more"),
        ("?access_token=ya29.x", "?access_token=***"),
    ],
)
def test_what_signs_an_address_is_hidden_wherever_it_came_from(said: str, shown: str) -> None:
    assert RemoteUrl("s3://bucket").redact(said) == shown


def test_names_that_only_sound_secret_are_switches_and_paths() -> None:
    location = remote_url(
        {
            "url": "sftp://host/tier",
            "option.look_for_keys": "false",
            "option.key_filename": "/etc/tierlog/id",
            "option.auth_timeout": "7",
        }
    )
    assert location.options == {
        "look_for_keys": False,
        "key_filename": "/etc/tierlog/id",
        "auth_timeout": 7,
    }
    assert location.redact("7 of /etc/tierlog/id") == "7 of /etc/tierlog/id"
