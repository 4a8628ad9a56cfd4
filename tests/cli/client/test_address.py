"""Where a command connects: arguments before the environment, the environment before the file."""

from collections.abc import Mapping

import pytest

from tierlog.cli.client.address import Stated, Target, UsageError, config_file, target_of

FILE = b"""
profile = "dev"
[profiles.dev]
bootstrap = "dev:1"
[profiles.prod]
bootstrap = "prod:1"
[profiles.prod.properties]
"request.timeout.ms" = 5000
"check.crcs" = true
"""
TIERLOG = {"TIERLOG_BOOTSTRAP": "tierlog:1"}
KAFKA = {"KAFKA_BOOTSTRAP_SERVERS": "kafka:1"}


def target(
    environ: Mapping[str, str],
    content: bytes | None = None,
    *,
    bootstrap: str | None = None,
    profile: str | None = None,
    properties: tuple[str, ...] = (),
    file: Mapping[str, str] | None = None,
) -> Target:
    return target_of(Stated(bootstrap, profile, properties, file or {}), environ, content)


def test_the_first_place_that_says_an_address_counts() -> None:
    both = TIERLOG | KAFKA
    assert target(both, FILE, bootstrap="b:1", profile="prod").bootstrap == "b:1"
    assert target(both, FILE, profile="prod").bootstrap == "prod:1"
    assert target(both | {"TIERLOG_PROFILE": "prod"}, FILE).bootstrap == "prod:1"
    assert target(both, FILE).bootstrap == "tierlog:1"
    assert target(KAFKA, FILE).bootstrap == "kafka:1"
    assert target({}, FILE).bootstrap == "dev:1"
    assert target({}).bootstrap == "127.0.0.1:9092"


def test_the_properties_of_a_profile_are_overridden_one_by_one() -> None:
    stated = target({}, FILE, profile="prod", properties=("request.timeout.ms=1",))
    assert stated.properties == {"request.timeout.ms": "1", "check.crcs": "true"}
    assert target({}, FILE, bootstrap="b:1").properties == {}


def test_a_file_of_properties_comes_between_a_profile_and_the_arguments() -> None:
    file = {"bootstrap.servers": "file:1", "request.timeout.ms": "2"}
    assert target(TIERLOG, FILE, file=file) == Target("file:1", {"request.timeout.ms": "2"})
    assert target({}, FILE, file={"acks": "1"}) == Target("127.0.0.1:9092", {"acks": "1"})
    assert target({}, FILE, file=file, bootstrap="b:1").bootstrap == "b:1"
    named = target({}, FILE, file=file, profile="prod", properties=("check.crcs=false",))
    assert named == Target("file:1", {"request.timeout.ms": "2", "check.crcs": "false"})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"profile = ", "not a TOML file"),
        (b"\xff", "not a TOML file"),
        (b'profile = "nope"', "There is no profile nope"),
        (b"profile = 5", "profile in .* is not text"),
        (b'profile = "a"\nprofiles = 5', "profiles in .* is not a table"),
        (b'profile = "a"\n[profiles.a]\nboot = "b:1"', "has boot in the profile a"),
        (b'profile = "a"\n[profiles.a]\nproperties = 1', "is not a table"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(content: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        target({}, content)


def test_a_profile_needs_a_file_and_a_file_has_a_place() -> None:
    with pytest.raises(UsageError, match=r"/home/me/\.config/tierlog/config\.toml does not exist"):
        target({"HOME": "/home/me"}, profile="dev")
    assert config_file({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == "/x/tierlog/config.toml"
