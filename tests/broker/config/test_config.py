"""A Kafka node's configuration is read whole, and what is wrong is said in one sentence."""

import pytest

from tierlog.broker.config.config import BrokerConfig, config_warnings, dev_properties, read_config
from tierlog.broker.config.config_values import TABLES
from tierlog.broker.config.listeners import with_bound_ports
from tierlog.broker.config.topic_defaults import TopicDefaults
from tierlog.broker.network.socket_listener import Endpoint
from tierlog.clients.config_def import ConfigType, parse_value
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.properties import parse_properties

KRAFT_FILE = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
log.retention.hours=168
log.segment.bytes=1073741824
"""
"""What a combined node's file of a Kafka distribution says."""


def refusal(stated: dict[str, str]) -> str:
    with pytest.raises(KafkaError) as caught:
        read_config(stated)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert "\n" not in caught.value.message
    return caught.value.message


def test_the_file_of_a_kafka_node_works_as_it_is() -> None:
    config = read_config(parse_properties(KRAFT_FILE), "host.example")
    assert config.node_id == 1
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert config.listeners.bound == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.listeners.advertised == (Endpoint("PLAINTEXT", "localhost", 9092),)
    assert config.remote_storage is None
    warnings = config_warnings(config)
    assert warnings == [
        "2 of Kafka's properties have no effect here: num.network.threads, num.io.threads"
    ]


def test_every_property_without_effect_is_named() -> None:
    names = [name for name in TABLES.unused if TABLES.unused[name].default][:20]
    config = read_config({name: TABLES.unused[name].default or "" for name in names})
    (warning,) = config_warnings(config)
    assert warning == f"20 of Kafka's properties have no effect here: {', '.join(names)}"


def test_options_of_a_tier_that_is_nowhere_are_reported() -> None:
    stated = {"rsm.config.option.key": "abc", "rsm.config.option.secret": "xyz"}
    assert config_warnings(read_config(stated)) == [
        "rsm.config.option.key, rsm.config.option.secret have no effect without rsm.config.url."
    ]
    off = {"rsm.config.url": "memory://x", "remote.log.storage.system.enable": "false"}
    assert config_warnings(read_config({**off, **stated})) == []


def test_session_timeouts_that_leave_no_choice_are_reported_and_accepted_as_by_kafka() -> None:
    config = read_config({"group.max.session.timeout.ms": "1000"})
    assert config_warnings(config) == [
        "group.max.session.timeout.ms is below group.min.session.timeout.ms (1000 and 6000): no "
        "session timeout is valid, so no client can join a group with the classic protocol."
    ]


def test_without_a_file_it_is_a_dev_broker() -> None:
    config = read_config(dev_properties())
    assert config.node_id == 0
    assert str(config.listeners.advertised[0]) == "PLAINTEXT://127.0.0.1:9092"
    assert config.remote_storage is not None
    assert config_warnings(config) == []


def test_every_default_obeys_its_own_rule() -> None:
    for definition in (*TABLES.acted_on.values(), *TABLES.unused.values()):
        if definition.default is not None:
            parse_value(definition, definition.default)
    assert not set(TABLES.acted_on) & set(TABLES.unused)
    assert len(TABLES.acted_on) + len(TABLES.unused) > 350


def test_every_property_that_is_acted_on_says_what_it_does() -> None:
    assert [name for name, each in TABLES.acted_on.items() if not each.documentation] == []


def test_a_description_may_have_several_lines() -> None:
    about = TABLES.acted_on["tierlog.fetch.pacing.enable"].documentation
    assert about.startswith("Whether")
    assert about.endswith("full. A tierlog property.")


def test_an_unknown_name_is_a_warning_that_suggests_the_nearest() -> None:
    config = read_config({**dev_properties(), "log.retenion.hours": "1", "x.y.z": "1"})
    assert config_warnings(config) == [
        "Unknown property log.retenion.hours; did you mean log.retention.hours?",
        "Unknown property x.y.z.",
    ]


def test_what_is_no_name_at_all_is_counted_wherever_it_stood() -> None:
    """It may be of `--override`, of a test's properties, of a container's environment."""
    advice = "a value of several lines needs a backslash at the end of each but the last."
    assert [*config_warnings(read_config({**dev_properties(), "foo": "bar"}))] == [
        "1 property of an unknown name is not shown, as it may be a part of a secret: in a file, "
        + advice
    ]
    assert [*config_warnings(read_config({**dev_properties(), "foo": "bar", "a+b": "c"}))] == [
        "2 properties of unknown names are not shown, as they may be parts of a secret: in a "
        "file, " + advice
    ]


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"num.partitions": "many"}, "Invalid value many for configuration num.partitions"),
        (
            {"num.partitions": "99999999999"},
            "Invalid value 99999999999 for configuration num.partitions: Not a number of type INT",
        ),
        ({"num.partitions": "0"}, "Value must be at least 1"),
        # Nobody could produce: a batch of one partition of one topic is two elements.
        ({"tierlog.request.elements.max": "1"}, "elements.max: Value must be at least 100"),
        ({"log.message.timestamp.type": "Never"}, "String must be one of: CreateTime"),
        ({"auto.create.topics.enable": "yes"}, "either true or false"),
        ({"process.roles": "controller"}, 'configuration "controller.listener.names"'),
        ({"process.roles": "broker"}, 'configuration "controller.listener.names"'),
        ({"controller.quorum.voters": "0@a:1,2@b:2"}, 'configuration "controller.listener.names"'),
        (
            {"controller.quorum.voters": "5@a:1"},
            "the node id 0 must be included in the set of voters controller.quorum.voters=Set(5)",
        ),
        ({"node.id": "1", "broker.id": "2"}, "have different values"),
        ({"listeners": "9092"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://h:99999"}, "larger than 65535"),
        ({"listeners": "SSL://:9093"}, "it has no private key"),
        ({"listeners": "SASL_SSL://:9093"}, "it has no private key"),
        ({"listeners": "INSIDE://:9093"}, "no entry in listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "must have a different name"),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
            "cannot use the nonroutable meta-address 0.0.0.0",
        ),
        (
            {"advertised.listeners": "OTHER://h:1"},
            "Found OTHER. The valid options based on the current configuration are PLAINTEXT",
        ),
        ({"inter.broker.listener.name": "OTHER"}, "currently configured listeners are PLAINTEXT"),
        (
            {"controller.listener.names": "CONTROLER"},
            "at least one value appearing in the 'listeners'",
        ),
        ({"authorizer.class.name": "org.example.Acls"}, "access control"),
        (
            {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:root;alice",
            },
            "super.users names alice, which has no type: write User:alice",
        ),
        ({"log.dirs": "/a,,/b"}, "empty directory"),
        ({"log.dirs": "/a,/a"}, "twice"),
        ({"remote.log.storage.system.enable": "true"}, "needs rsm.config.url"),
    ],
)
def test_a_bad_value_is_one_plain_sentence(stated: dict[str, str], sentence: str) -> None:
    assert sentence in refusal(stated)


def test_a_java_plugin_without_a_url_is_explained() -> None:
    message = refusal(
        {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": "org.example.S3Storage",
        }
    )
    assert "org.example.S3Storage is a Java class" in message


def test_the_remote_tier_is_a_url_and_its_options() -> None:
    config = read_config(
        {
            "rsm.config.url": "s3://bucket/path",
            "rsm.config.option.key": "abc",
            "remote.log.storage.manager.class.name": "org.example.S3Storage",
        }
    )
    assert config.remote_storage is not None
    assert config.remote_storage.url == "s3://bucket/path"
    assert config.remote_storage.options == {"key": "abc"}
    assert "does not load" in config_warnings(config)[0]


def test_options_that_no_file_system_knows_are_one_warning_for_each_tier() -> None:
    stated = {
        "rsm.config.url": "s3://bucket/path",
        "rsm.config.option.endpoint_ulr": "http://127.0.0.1:9000",
        "rsm.config.option.key": "abc",
        "tierlog.mount.archive.url": "s3://bucket/other",
        "tierlog.mount.archive.option.secre": "abc",
    }
    assert config_warnings(read_config(stated)) == [
        "The file system of s3:// has no such option: rsm.config.option.endpoint_ulr (did you "
        "mean endpoint_url?).",
        "The file system of s3:// has no such option: tierlog.mount.archive.option.secre (did "
        "you mean secret?).",
    ]


def test_the_tier_can_be_switched_off_though_its_url_is_stated() -> None:
    stated = {"rsm.config.url": "memory://x", "remote.log.storage.system.enable": "false"}
    assert read_config(stated).remote_storage is None


def test_a_tier_that_its_url_has_switched_on_is_described_as_on() -> None:
    """Administrators ask by Kafka's name, and its default is false."""
    enable = "remote.log.storage.system.enable"
    assert read_config({"rsm.config.url": "memory://x"}).values.stated[enable] == "true"
    assert not read_config({}).values.boolean(enable)


def test_an_ipv6_address_stands_in_brackets() -> None:
    config = read_config({"listeners": "PLAINTEXT://[::1]:0"})
    assert config.listeners.bound == (Endpoint("PLAINTEXT", "::1", 0),)
    assert str(config.listeners.bound[0]) == "PLAINTEXT://[::1]:0"


def test_a_port_that_the_system_chose_is_advertised() -> None:
    config = read_config({"listeners": "PLAINTEXT://127.0.0.1:0"})
    listeners = with_bound_ports(config.listeners, {"PLAINTEXT": 4711})
    assert listeners.advertised == (Endpoint("PLAINTEXT", "127.0.0.1", 4711),)


def defaults(config: BrokerConfig) -> TopicDefaults:
    return TopicDefaults(config.values)


def test_topic_defaults_prefer_the_finest_unit_that_is_stated() -> None:
    hours = defaults(read_config({"log.retention.hours": "2"}))
    assert hours.log_config().retention_ms == 7_200_000
    stated = {"log.retention.hours": "2", "log.retention.minutes": "3", "log.roll.hours": "1"}
    config = defaults(read_config(stated)).log_config()
    assert config.retention_ms == 180_000
    assert config.segment_ms == 3_600_000
    finest = defaults(read_config({**stated, "log.retention.ms": "-1"}))
    assert finest.log_config().retention_ms == -1


def test_topic_defaults_are_kafkas_where_nothing_is_stated() -> None:
    config = defaults(read_config({})).log_config()
    assert config.retention_ms == 604_800_000
    assert config.segment_bytes == 1_073_741_824


def test_the_types_are_numbered_as_describe_configs_sends_them() -> None:
    assert [each.name for each in ConfigType] == [
        "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD",
    ]  # fmt: skip


@pytest.mark.parametrize("stated", ["", " "])
def test_log_dirs_that_names_nothing_is_no_wish_for_the_default(stated: str) -> None:
    with pytest.raises(KafkaError, match=r"At least one log directory must be defined"):
        read_config({"log.dirs": stated})
