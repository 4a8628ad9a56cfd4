"""`config.providers` (KIP-297, KIP-421): values from files, folders and the environment."""

from pathlib import Path

import pytest

from tierlog.broker.config.config_providers import resolve_variables
from tierlog.cli.configuration import stated_configuration
from tierlog.clients.errors import ErrorCode, KafkaError

PACKAGE = "org.apache.kafka.common.config.provider"
ALL = {
    "config.providers": "file,env,dir",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
}
FILES = {
    "/etc/tier.properties": b"secret = hush\nport=9092\n",
    "/run/secrets/key": b"AKIA\n",
}
ENVIRONMENT = {"TIER_SECRET": "quiet", "AWS_REGION": "eu-1", "HOME": "/root"}


def read(path: str) -> bytes:
    try:
        return FILES[path]
    except KeyError:
        raise FileNotFoundError(2, "No such file or directory", path) from None


def resolved(name: str, value: str, **providers: str) -> str:
    stated = {**ALL, **providers, name: value}
    return resolve_variables(stated, read, ENVIRONMENT)[name]


def refusal(value: str, **providers: str) -> str:
    with pytest.raises(KafkaError) as caught:
        resolved("rsm.config.option.secret", value, **providers)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    message = caught.value.message
    assert "\n" not in message
    assert not any(secret in message for secret in ("hush", "quiet", "AKIA"))
    return message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${file:/etc/tier.properties:secret}", "hush"),
        ("${env:TIER_SECRET}", "quiet"),
        ("${dir:/run/secrets:key}", "AKIA"),
        ("PLAINTEXT://:${file:/etc/tier.properties:port}", "PLAINTEXT://:9092"),
        ("${env:TIER_SECRET}-${env:AWS_REGION}", "quiet-eu-1"),
        ("no variable: $5 {env:HOME}", "no variable: $5 {env:HOME}"),
    ],
)
def test_a_value_is_read_where_its_variable_says(value: str, expected: str) -> None:
    assert resolved("rsm.config.option.secret", value) == expected


def test_a_value_that_looks_like_a_variable_itself_is_not_looked_up_again() -> None:
    environment = {"OUTER": "${env:INNER}", "INNER": "x"}
    stated = {**ALL, "broker.rack": "${env:OUTER}"}
    assert resolve_variables(stated, read, environment)["broker.rack"] == "${env:INNER}"


def test_a_variable_of_a_provider_that_is_not_named_is_a_slip_of_the_pen() -> None:
    assert "has no provider vault" in refusal("${vault:secret/tier:key}")


def test_without_providers_other_names_are_text_as_in_kafka() -> None:
    stated = {"broker.rack": "${rack:a}"}
    assert resolve_variables(stated, read, ENVIRONMENT) == stated


def test_without_a_variable_nothing_is_changed() -> None:
    assert resolve_variables({"broker.rack": "a"}, read, {}) == {"broker.rack": "a"}


def test_a_variable_without_its_provider_is_no_secret_but_a_mistake() -> None:
    with pytest.raises(KafkaError) as caught:
        resolve_variables({"rsm.config.option.secret": "${env:TIER_SECRET}"}, read, ENVIRONMENT)
    assert caught.value.message == (
        f"rsm.config.option.secret holds ${{env:TIER_SECRET}}, but config.providers has no "
        "provider env: add config.providers=env and "
        f"config.providers.env.class={PACKAGE}.EnvVarConfigProvider."
    )


def test_the_folder_may_be_called_a_directory() -> None:
    with pytest.raises(KafkaError) as caught:
        resolve_variables({"ssl.key.password": "${directory:/run/secrets:key}"}, read, {})
    assert f"config.providers.directory.class={PACKAGE}.DirectoryConfigProvider" in (
        caught.value.message
    )


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("${file:/etc/tier.properties:nothing}", "/etc/tier.properties has no property nothing"),
        ("${file:/etc/absent:secret}", "The file /etc/absent cannot be read"),
        ("${env:NOTHING}", "there is no environment variable NOTHING"),
        ("${env:/some/path:TIER_SECRET}", "takes no path"),
        ("${dir:/run/secrets:absent}", "The file /run/secrets/absent cannot be read"),
        ("${dir:/run/secrets:../../etc/tier.properties}", "is not a file name"),
        ("${file:secret}", "needs a path"),
    ],
)
def test_a_value_that_is_not_there_ends_the_start(value: str, sentence: str) -> None:
    message = refusal(value)
    assert message.startswith(f"rsm.config.option.secret holds {value}: ")
    assert sentence in message


def test_paths_that_are_not_allowed_are_not_read() -> None:
    allowed = {"config.providers.file.param.allowed.paths": "/run,/etc/other"}
    assert "is outside of" in refusal("${file:/etc/tier.properties:secret}", **allowed)
    assert "is outside of" in refusal("${file:/run/../etc/tier.properties:secret}", **allowed)
    inside = {"config.providers.file.param.allowed.paths": "/run,/etc"}
    assert resolved("a", "${file:/etc/tier.properties:secret}", **inside) == "hush"
    directory = {"config.providers.dir.param.allowed.paths": "/run/secrets"}
    assert resolved("a", "${dir:/run/secrets:key}", **directory) == "AKIA"


def test_environment_variables_that_are_not_allowed_are_not_read() -> None:
    allowed = {"config.providers.env.param.allowlist.pattern": "AWS_.*"}
    assert resolved("a", "${env:AWS_REGION}", **allowed) == "eu-1"
    assert "does not match AWS_.*" in refusal("${env:TIER_SECRET}", **allowed)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("config.providers.env.class", "org.example.Vault", "is a Java class, which tierlog"),
        ("config.providers.env.class", "", "config.providers.env.class is not set"),
        ("config.providers.env.param.allow.pattern", "x", "has no parameter allow.pattern"),
        ("config.providers.env.param.allowlist.pattern", "(", "is not a valid regular expression"),
        ("config.providers.file.param.allowed.paths", "run", "is not an absolute path"),
        ("config.providers.vault.class", "org.example.Vault", "config.providers does not list"),
    ],
)
def test_a_provider_that_cannot_be_obeyed_is_refused(name: str, value: str, sentence: str) -> None:
    assert sentence in refusal("${env:TIER_SECRET}", **{name: value})


def test_a_broker_reads_its_secrets_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERLOG_TEST_SECRET", "hush")
    (tmp_path / "server.properties").write_text(
        "config.providers=env\n"
        f"config.providers.env.class={PACKAGE}.EnvVarConfigProvider\n"
        "rsm.config.url=memory://tier\n"
        "rsm.config.option.secret=${env:TIERLOG_TEST_SECRET}\n"
    )
    config = stated_configuration(str(tmp_path / "server.properties"), [])
    assert config.remote_storage is not None
    assert config.remote_storage.options == {"secret": "hush"}


def test_a_provider_is_no_property_without_effect(tmp_path: Path) -> None:
    from tierlog.broker.config.config import config_warnings, read_config

    assert config_warnings(read_config(ALL)) == []
