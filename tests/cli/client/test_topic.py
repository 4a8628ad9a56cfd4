"""`tierlog topic` and `tierlog config` against a broker."""

import pytest

from tierlog.testing import Broker
from tierlog.tests.cli.client.command_run import Tierlog


def test_a_topic_from_its_creation_to_its_deletion(tierlog: Tierlog) -> None:
    created = tierlog.done("topic", "create", "life", "-p", "3", "-c", "retention.ms=60000")
    assert created.text == "life created\n"
    assert ["life", "3", "1"] in tierlog.done("topic", "ls").words
    (described,) = tierlog.done("topic", "describe", "life", "--json").json
    assert described["configs"] == {"retention.ms": "60000"}
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    tierlog.done("topic", "alter", "life", "-p", "4", "-c", "segment.bytes=2000000")
    tierlog.done("topic", "alter", "life", "-d", "retention.ms")
    (described,) = tierlog.done("topic", "describe", "life", "--json").json
    assert described["configs"] == {"segment.bytes": "2000000"}
    assert len(described["partitions"]) == 4
    assert tierlog.done("topic", "delete", "life").text == "life deleted\n"
    assert ["life"] not in tierlog.done("topic", "ls", "--names").words


def test_a_name_does_not_act_on_the_terminal(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "seen", "--if-not-exists")
    tierlog.done("group", "seek", "\x1b[2Jg\n", "--to", "start", "--topic", "seen")
    shown = [
        tierlog.done("group", "ls").text,
        tierlog.done("group", "ls", "--names").text,
        tierlog.done("group", "describe", "\x1b[2Jg\n").text,
        tierlog("group", "describe", "\x1b]0;none").err,
    ]
    tierlog.done("group", "delete", "\x1b[2Jg\n")
    assert all("\x1b" not in each and r"\x1b" in each for each in shown), shown


def test_a_topic_that_cannot_be_described_is_not_said_to_be_absent(tierlog: Tierlog) -> None:
    with Broker() as faulty, faulty.faults.fail("Metadata", "TOPIC_AUTHORIZATION_FAILED"):
        faulty.create_topic("secret")
        tierlog.bootstrap = faulty.bootstrap_servers
        answer = tierlog("topic", "describe", "secret")
    said = "tierlog: The topic secret cannot be described: TOPIC_AUTHORIZATION_FAILED.\n"
    assert (answer.code, answer.err) == (1, said)


def test_what_is_not_there_is_refused_in_one_line(tierlog: Tierlog) -> None:
    for words in (
        ("topic", "describe", "nope"),
        ("topic", "delete", "nope"),
        ("topic", "alter", "nope", "-c", "retention.ms=1"),
        ("topic", "trim", "nope", "-o", "end"),
        ("consume", "nope", "-e"),
        ("group", "describe", "nope"),
        ("group", "delete", "nope"),
        ("group", "seek", "nope", "--to", "start"),
        ("config", "get", "topic", "nope"),
        ("config", "get", "broker", "77"),
        ("config", "set", "topic", "nope", "retention.ms=1"),
    ):
        for form in ((), ("--json",)):
            answer = tierlog(*words, *form)
            assert (answer.code, answer.out) == (1, b""), (words, answer)
            assert answer.err.count("\n") == 1, (words, answer)
            assert "nope" in answer.err or "77" in answer.err


def test_one_refused_item_does_not_stop_the_others(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "one")
    again = tierlog("topic", "create", "one", "two")
    assert (again.code, again.text) == (1, "two created\n")
    assert "'one' already exists" in again.err
    assert tierlog.done("topic", "create", "one", "--if-not-exists").text == "one was there\n"


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "ls"),
        ("topic", "create", "t"),
        ("topic", "describe", "t"),
        ("topic", "storage", "t"),
        ("produce", "t"),
        ("consume", "t", "-e"),
        ("group", "ls"),
        ("config", "get", "topic", "t"),
        ("cluster", "info"),
        ("cluster", "ping"),
        ("cluster", "wait", "--timeout", "0"),
    ],
    ids=" ".join,
)
def test_at_a_dead_port_each_command_ends_with_2_and_one_line(
    tierlog: Tierlog, words: tuple[str, ...]
) -> None:
    tierlog.bootstrap = "127.0.0.1:1"
    answer = tierlog(*words, stdin=b"line\n")
    assert (answer.code, answer.out) == (2, b"")
    assert answer.err.count("\n") == 1
    assert "Connection refused" in answer.err


def test_a_trim_deletes_below_a_place_and_never_beyond_the_end(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "trimmed")
    tierlog.done("produce", "trimmed", stdin=b"a\nb\nc\n")
    too_far = tierlog("topic", "trim", "trimmed", "-o", "100")
    assert (too_far.code, too_far.out) == (1, b"")
    assert tierlog.done("topic", "trim", "trimmed", "-o", "-1").text == "trimmed-0 starts at 2\n"
    assert tierlog.done("consume", "trimmed", "-e").text == "c\n"


def test_configs_are_shown_set_and_returned_to_their_defaults(tierlog: Tierlog) -> None:
    tierlog.done("topic", "create", "configured")
    of_topic = ("topic", "configured", "retention.ms")
    tierlog.done("config", "set", "topic", "configured", "retention.ms=1234567")
    assert tierlog.done("config", "get", *of_topic).words[1][:2] == ["retention.ms", "1234567"]
    tierlog.done("config", "unset", *of_topic)
    (entry,) = tierlog.done("config", "get", *of_topic, "--json").json
    assert entry == {
        "name": "retention.ms",
        "value": "604800000",
        "source": "default_config",
        "read_only": False,
        "sensitive": False,
    }
    tierlog.done("config", "set", "broker", "default", "log.cleaner.threads=2")
    of_broker = ("broker", "0", "log.cleaner.threads", "--json")
    (entry,) = tierlog.done("config", "get", *of_broker).json
    assert entry["source"] == "dynamic_default_broker_config"
    refused = tierlog("config", "set", "topic", "configured", "retention.ms=never")
    assert (refused.code, refused.err.count("\n")) == (1, 1)


def test_the_cluster_is_described_and_waited_for(tierlog: Tierlog) -> None:
    described = tierlog.done("cluster", "info", "--json").json
    (broker,) = described["brokers"]
    address = f"{broker['host']}:{broker['port']}"
    assert tierlog.bootstrap == address
    assert address in tierlog.done("cluster", "ping").text
    assert tierlog.done("cluster", "wait").text == "1 broker ready\n"
    short = tierlog("cluster", "wait", "--brokers", "2", "--timeout", "0")
    assert (short.code, short.out) == (2, b"")
    assert "1 of 2 brokers" in short.err


def test_arguments_that_mean_nothing_are_refused_before_anybody_is_asked(tierlog: Tierlog) -> None:
    for words, said in (
        (("topic", "ls", "-X", "retries=5"), "has the property retries"),
        (("topic", "ls", "-X", "retries"), "not of the form"),
        (("topic", "alter", "t"), "Nothing is to be altered"),
        (("topic", "create", "t", "-c", "retention.ms"), "not of the form"),
        (("topic", "ls", "-X", "reconnect.backoff.ms=soon"), "not a whole number"),
        (("topic", "ls", "--profile", "nope"), "no profile nope"),
        (("consume", "t", "-o", "somewhere"), "not a valid position"),
        (("consume", "t", "--json", "-f", "%s"), "two formats"),
        (("consume", "t", "-f", "%q"), "not a valid format"),
        (("consume", "t", "-g", "g", "-o", "end"), "its own positions"),
        (("config", "get", "broker", "first"), "not a broker"),
    ):
        answer = tierlog(*words)
        assert (answer.code, answer.out) == (2, b""), (words, answer)
        assert said in answer.err
