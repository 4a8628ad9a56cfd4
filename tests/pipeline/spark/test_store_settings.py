"""What Hadoop is given of the tier's options: the same store and credentials, in its own names."""

import re

import pytest

from tierlog.pipeline.spark.store_settings import REDACTED, store_settings
from tierlog.tiering.store.remote_url import RemoteUrl, remote_url

TABLE = "s3a://lake.of-ours/orders"
PREFIX = "fs.s3a.bucket.lake.of-ours."
SERVER = {"endpoint_url": "http://10.0.0.5:9000"}
KEYS = {"key": "the-key", "secret": "the-secret"}


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AWS_ENDPOINT_URL_S3",
        "AWS_ENDPOINT_URL",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)


def tier(url: str = "s3://tier/broker", /, **options: str) -> RemoteUrl:
    named = {f"option.{name.replace('__', '.')}": text for name, text in options.items()}
    return remote_url({"url": url, **named})


def s3a(location: RemoteUrl) -> dict[str, str]:
    """The settings of the table's bucket, without the prefix that all of them have."""
    settings = store_settings(location, TABLE, ())
    assert all(name.startswith(PREFIX) for name in settings)
    return {name.removeprefix(PREFIX): value for name, value in settings.items()}


def test_the_keys_and_the_server_of_the_tier_hold_for_the_tables_bucket_alone() -> None:
    assert s3a(tier(**KEYS, **SERVER)) == {
        "access.key": "the-key",
        "secret.key": "the-secret",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "endpoint": "http://10.0.0.5:9000",
        "path.style.access": "true",
        "endpoint.region": "us-east-1",
    }


def test_options_that_s3fs_hands_to_botocore_mean_the_same() -> None:
    settings = s3a(
        tier(
            client_kwargs__aws_access_key_id="the-key",
            client_kwargs__aws_secret_access_key="the-secret",
            client_kwargs__aws_session_token="the-token",
            client_kwargs__endpoint_url="https://store.example",
            client_kwargs__region_name="eu-central-1",
            config_kwargs__s3__addressing_style="virtual",
            use_ssl="false",
            requester_pays="true",
        )
    )
    assert settings == {
        "access.key": "the-key",
        "secret.key": "the-secret",
        "session.token": "the-token",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        "endpoint": "https://store.example",
        "path.style.access": "false",
        "endpoint.region": "eu-central-1",
        "connection.ssl.enabled": "false",
        "requester.pays.enabled": "true",
    }


def test_without_keys_the_sdk_looks_where_botocore_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    settings = s3a(tier())
    providers = settings.pop("aws.credentials.provider").split(",")
    assert providers[-1] == "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    assert settings == {"endpoint.region": "eu-west-2"}


def test_the_table_is_at_the_endpoint_of_the_environment_as_the_tier_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the tier's client reads one store, and Hadoop signs for another region there."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://10.0.0.5:9000")
    settings = s3a(tier())
    assert settings["endpoint"] == "http://10.0.0.5:9000"
    assert settings["path.style.access"] == "true"
    assert settings["endpoint.region"] == "us-east-1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://10.0.0.6:9000")
    assert s3a(tier())["endpoint"] == "http://10.0.0.6:9000"
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert "endpoint" not in s3a(tier())
    assert s3a(tier(**SERVER))["endpoint"] == "http://10.0.0.5:9000"


def test_a_profile_is_named_and_an_anonymous_tier_stays_anonymous() -> None:
    assert s3a(tier(profile="reporting"))["auth.profile.name"] == "reporting"
    (provider,) = s3a(tier(anon="true")).values()
    assert provider == "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"


@pytest.mark.parametrize(
    "stated",
    [
        "spark.hadoop.fs.s3a.endpoint",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.bucket.lake.of-ours.aws.credentials.provider",
    ],
)
def test_no_key_of_the_tier_goes_where_the_user_has_named_store_or_keys(stated: str) -> None:
    assert store_settings(tier(**KEYS), TABLE, {stated}) == {}


def test_settings_that_name_no_store_or_another_bucket_leave_the_tiers_in_force() -> None:
    stated = {
        "spark.hadoop.fs.s3a.connection.maximum",
        "spark.hadoop.fs.s3a.bucket.lake.endpoint",
        "spark.master",
    }
    assert store_settings(tier(**KEYS), TABLE, stated)[PREFIX + "access.key"] == "the-key"


@pytest.mark.parametrize(
    ("url", "table"),
    [
        ("gs://tier/broker", TABLE),
        ("file:///tier", TABLE),
        ("s3://tier/broker", "/data/orders"),
        ("s3://tier/broker", "hdfs://name/orders"),
    ],
)
def test_a_table_in_another_store_gets_nothing_of_the_tiers(url: str, table: str) -> None:
    assert store_settings(tier(url), table, ()) == {}


@pytest.mark.parametrize(
    ("token", "settings"),
    [
        ("", {"fs.gs.auth.type": "APPLICATION_DEFAULT"}),
        ("anon", {"fs.gs.auth.type": "UNAUTHENTICATED"}),
        (
            "/etc/key.json",
            {
                "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": "/etc/key.json",
            },
        ),
    ],
)
def test_googles_connector_gets_the_tiers_token(token: str, settings: dict[str, str]) -> None:
    found = store_settings(tier("gs://tier/broker", token=token), "gs://lake/orders", ())
    assert found == settings


def test_azures_key_is_for_the_account_of_the_tier_only() -> None:
    place = tier("abfs://tier/broker", account_name="ours", account_key="a2V5")
    host = "ours.dfs.core.windows.net"
    url = f"abfss://lake@{host}/orders"
    assert store_settings(place, url, ()) == {f"fs.azure.account.key.{host}": "a2V5"}
    assert store_settings(place, url.replace("ours", "theirs"), ()) == {}


def test_what_is_secret_in_the_settings_is_redacted_where_spark_shows_settings() -> None:
    azure = tier("abfs://tier/broker", account_name="ours", account_key="a2V5")
    settings = {
        **store_settings(tier(**KEYS, token="the-token"), TABLE, ()),
        **store_settings(azure, "abfss://lake@ours.dfs.core.windows.net/orders", ()),
    }
    shown = {value for name, value in settings.items() if not re.search(REDACTED, name)}
    assert not shown & {"the-key", "the-secret", "the-token", "a2V5"}
