"""What Hadoop has to know of an object store, from what the tier's file system was given.

A table often lies in the store of the tier, and its file system in Spark is Hadoop's and not
fsspec's, with its own names for the endpoint and the credentials. If a table's URL is of the same
kind of store as the tier's, the tier's options hold for the table's bucket too, unless the user
states where that store is or who asks: then nothing of the tier's is used, so that no key of the
tier is sent to another store.

Sources: fsspec's names are those of s3fs, gcsfs and adlfs; Hadoop's those of the S3A and ABFS
documentation of Hadoop 3.4.2 and of Google's gcs-connector 3.0.
"""

import os
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from ...tiering.store.remote_url import OptionValue, RemoteUrl
from .known_jars import ABFS, GCS, S3, kind_of_url

REDACTED = "(?i)secret|password|token|access[.-]?key|account[.]?key|private[.]?key|credential"
"""What `spark.redaction.regex` has to match: Spark's own words, and those of Azure and Google."""

_HADOOP = "spark.hadoop."
_DECISIVE = frozenset(
    (
        "access.key",
        "aws.credentials.provider",
        "endpoint",
        "secret.key",
        "security.credential.provider.path",
        "session.token",
    )
)
"""S3A's settings that say where a store is or who asks."""

_HADOOP_KEYS = ("TemporaryAWSCredentialsProvider", "SimpleAWSCredentialsProvider")
# Spark gives Hadoop the keys in the driver's environment, which the executors may not have. All
# else that botocore looks at is in the chain of Amazon's SDK: S3A's own has no profiles, no SSO.
_USUAL_PROVIDERS = ",".join(
    (
        *(f"org.apache.hadoop.fs.s3a.{name}" for name in _HADOOP_KEYS),
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    )
)


def store_settings(tier: RemoteUrl, url: str, stated: Collection[str]) -> dict[str, str]:
    """Hadoop's settings for the store of a table at `url`, by their names in Hadoop.

    `stated` are the names of the settings that Spark has been given. The result is empty if the
    table is in another kind of store, or the user has stated the place or the credentials. It may
    hold secrets.
    """
    kind = kind_of_url(url)
    if kind is None or kind_of_url(tier.url) != kind:
        return {}
    names = {name.removeprefix(_HADOOP) for name in stated if name.startswith(_HADOOP)}
    if kind == S3:
        bucket = urlsplit(url).netloc.rpartition("@")[2]
        prefix = f"fs.s3a.bucket.{bucket}."
        if not names.isdisjoint(
            {f"{each}{name}" for each in ("fs.s3a.", prefix) for name in _DECISIVE}
        ):
            return {}
        return {prefix + name: value for name, value in _s3a(tier.options).items()}
    if kind == GCS:
        is_decided = any(name.startswith("fs.gs.auth.") for name in names)
        return {} if is_decided or "fs.gs.storage.root.url" in names else _gs(tier.options)
    assert kind == ABFS, kind
    is_decided = any(name.startswith("fs.azure.account.") for name in names)
    return {} if is_decided else _abfs(tier.options, url)


def _inner(options: Mapping[str, OptionValue], name: str) -> Mapping[str, OptionValue]:
    value = options.get(name)
    return value if isinstance(value, dict) else {}


def _first(*values: OptionValue | None) -> str:
    """The first value that is text and not empty."""
    return next((value for value in values if isinstance(value, str) and value), "")


def _s3a(options: Mapping[str, OptionValue]) -> dict[str, str]:
    """S3A's settings of a bucket, without their prefix."""
    client, config = _inner(options, "client_kwargs"), _inner(options, "config_kwargs")
    settings = _s3a_credentials(options, client)
    endpoint = _first(options.get("endpoint_url"), client.get("endpoint_url"))
    endpoint = endpoint or _endpoint_of_the_environment()
    region = _first(client.get("region_name"), config.get("region_name"))
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    if endpoint:
        settings["endpoint"] = endpoint
        # As botocore does: such a server rarely has a name for each bucket, and signs as this.
        is_virtual = _inner(config, "s3").get("addressing_style") == "virtual"
        settings["path.style.access"] = str(not is_virtual).lower()
        region = region or "us-east-1"
    if region:
        settings["endpoint.region"] = region
    if False in (options.get("use_ssl"), client.get("use_ssl")):
        settings["connection.ssl.enabled"] = "false"
    if options.get("requester_pays") is True:
        settings["requester.pays.enabled"] = "true"
    return settings


def _endpoint_of_the_environment() -> str:
    """Where botocore looks for S3 if no option says so, or an empty text."""
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return ""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _s3a_credentials(
    options: Mapping[str, OptionValue], client: Mapping[str, OptionValue]
) -> dict[str, str]:
    if options.get("anon") is True:
        provider = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
        return {"aws.credentials.provider": provider}
    key = _first(options.get("key"), options.get("username"), client.get("aws_access_key_id"))
    secret = _first(
        options.get("secret"), options.get("password"), client.get("aws_secret_access_key")
    )
    token = _first(options.get("token"), client.get("aws_session_token"))
    if key and secret:
        provider = _HADOOP_KEYS[0 if token else 1]
        settings = {
            "access.key": key,
            "secret.key": secret,
            "aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{provider}",
        }
        return {**settings, "session.token": token} if token else settings
    profile = _first(options.get("profile"))
    if profile:
        provider = "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"
        return {"aws.credentials.provider": provider, "auth.profile.name": profile}
    return {"aws.credentials.provider": _USUAL_PROVIDERS}


def _gs(options: Mapping[str, OptionValue]) -> dict[str, str]:
    """The connector's settings, which hold for all buckets."""
    token = _first(options.get("token"))
    types = {"": "APPLICATION_DEFAULT", "google_default": "APPLICATION_DEFAULT"}
    types |= {"anon": "UNAUTHENTICATED", "cloud": "COMPUTE_ENGINE"}
    settings = {"fs.gs.auth.type": types.get(token, "SERVICE_ACCOUNT_JSON_KEYFILE")}
    if token not in types:
        settings["fs.gs.auth.service.account.json.keyfile"] = token
    endpoint, project = _first(options.get("endpoint_url")), _first(options.get("project"))
    if endpoint:
        settings["fs.gs.storage.root.url"] = endpoint.rstrip("/") + "/"
    return {**settings, "fs.gs.project.id": project} if project else settings


def _abfs(options: Mapping[str, OptionValue], url: str) -> dict[str, str]:
    """The key of the account in the table's URL, if it is the tier's."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    account, key = _first(options.get("account_name")), _first(options.get("account_key"))
    is_the_same = bool(account) and host.partition(".")[0] == account
    return {f"fs.azure.account.key.{host}": key} if is_the_same and key else {}
