"""Metrics as Prometheus reads them, under the names that its JMX exporter gives Kafka's."""

from math import inf, nan

from hypothesis import given, strategies as st

from tierlog.broker.metrics.metrics import Metrics, Sample
from tierlog.broker.metrics.prometheus import exposition

from ..exposition_reader import parse_exposition

METER = "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"


def test_an_mbean_becomes_a_name_and_labels_as_the_jmx_exporter_has_it() -> None:
    assert exposition([Sample(f"{METER},topic=orders", "Count", 12)]) == (
        "# HELP kafka_server_BrokerTopicMetrics_Count"
        " kafka.server:type=BrokerTopicMetrics attribute Count\n"
        "# TYPE kafka_server_BrokerTopicMetrics_Count counter\n"
        'kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",topic="orders"} 12\n'
    )


def test_attributes_with_dashes_and_domains_with_dots_become_underscores() -> None:
    text = exposition(
        [
            Sample("kafka.server:type=RemoteLogManager", "remote-copy-throttle-time-avg", 1.5),
            Sample("org.apache.kafka.storage.internals.log:type=Pool,name=Size", "Value", 3),
        ]
    )
    assert parse_exposition(text) == {
        ("kafka_server_RemoteLogManager_remote_copy_throttle_time_avg", ()): 1.5,
        (
            "org_apache_kafka_storage_internals_log_Pool_Value",
            (("name", "Size"),),
        ): 3,
    }
    assert "# TYPE kafka_server_RemoteLogManager_remote_copy_throttle_time_avg gauge" in text


def test_the_series_of_one_name_stand_together_whatever_their_order() -> None:
    text = exposition(
        [
            Sample(METER, "Count", 1),
            Sample("kafka.server:type=Other,name=x", "Count", 2),
            Sample(f"{METER},topic=a", "Count", 3),
        ]
    )
    names = [line.split("{")[0] for line in text.splitlines() if not line.startswith("#")]
    assert names == sorted(names)
    assert text.count("# TYPE kafka_server_BrokerTopicMetrics_Count") == 1


def test_what_is_no_number_is_said_as_prometheus_says_it() -> None:
    text = exposition(
        [Sample("d:type=A", "x", nan), Sample("d:type=A", "y", inf), Sample("d:type=A", "z", -inf)]
    )
    assert [line.split()[1] for line in text.splitlines() if line[0] != "#"] == [
        "NaN", "+Inf", "-Inf",
    ]  # fmt: skip


@given(st.text().filter(lambda text: "," not in text), st.floats(allow_nan=False))
def test_any_label_and_any_number_arrive(label: str, value: float) -> None:
    text = exposition([Sample(f"kafka.server:type=T,name={label}", "Value", value)])
    assert parse_exposition(text) == {("kafka_server_T_Value", (("name", label),)): value}


def test_counters_gauges_and_families_are_read_together() -> None:
    metrics = Metrics()
    metrics.counter("d:type=A,name=count").add(2)
    metrics.gauge("d:type=A,name=gauge", lambda: 0.5)
    metrics.gauge("d:type=A", lambda: 7, "own-attribute")
    metrics.family(lambda: [Sample(f"d:type=A,name=each,topic={t}", "Value", 1) for t in "ab"])
    assert metrics.samples() == [
        ("d:type=A", "own-attribute", 7),
        ("d:type=A,name=count", "Count", 2),
        ("d:type=A,name=each,topic=a", "Value", 1),
        ("d:type=A,name=each,topic=b", "Value", 1),
        ("d:type=A,name=gauge", "Value", 0.5),
    ]
    assert dict(metrics.read())["d:type=A,name=count"] == 2
    assert "d:type=A" not in dict(metrics.read())
