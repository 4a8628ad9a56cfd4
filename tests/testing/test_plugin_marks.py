"""The mark `tierlog_topic`: all ways to write it work, or are refused with one sentence."""

from pathlib import Path

import pytest

from tierlog.tests.testing.plugin_runs import run

RIGHT = """
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

pytestmark = pytest.mark.tierlog_topic(retention_ms=5000)

def partitions(broker, topic):
    return len(AdminClient(broker.config()).list_topics(topic).topics[topic].partitions)

def retention(broker, topic):
    asked = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient(broker.config())
    configs = admin.describe_configs([asked])[asked].result()
    return configs["retention.ms"].value

@pytest.mark.tierlog_topic(3)
def test_without_a_name(tierlog_broker, tierlog_topic):
    assert partitions(tierlog_broker, tierlog_topic) == 3
    assert retention(tierlog_broker, tierlog_topic) == "5000"  # of the module's mark

@pytest.mark.tierlog_topic(partitions=2, retention_ms=7000)
class TestMarked:
    def test_of_the_class(self, tierlog_broker, tierlog_topic):
        assert partitions(tierlog_broker, tierlog_topic) == 2
        assert retention(tierlog_broker, tierlog_topic) == "7000"

    @pytest.mark.tierlog_topic(4)
    def test_nearer_than_the_class(self, tierlog_broker, tierlog_topic):
        assert partitions(tierlog_broker, tierlog_topic) == 4
        assert retention(tierlog_broker, tierlog_topic) == "7000"

    def test_without_a_topic(self, tierlog_broker):
        pass  # the class's mark is for the others

@pytest.mark.parametrize(
    "count", [1, pytest.param(5, marks=pytest.mark.tierlog_topic(5))]
)
def test_of_a_parameter(tierlog_broker, tierlog_topic, count):
    assert partitions(tierlog_broker, tierlog_topic) == count

@pytest.mark.tierlog_topic(2)
def test_asked_for_later(request, tierlog_broker):
    assert partitions(tierlog_broker, request.getfixturevalue("tierlog_topic")) == 2
"""

WRONG = [
    ("(3, 4)", "tierlog_topic", "has one argument without a name, the partitions"),
    ("(3, partitions=4)", "tierlog_topic", "has one argument without a name, the partitions"),
    ("('3')", "tierlog_topic", "has '3' for the number of partitions"),
    ("(0)", "tierlog_topic", "has 0 for the number of partitions"),
    ("()", "tierlog_topic", "The mark tierlog_topic says nothing"),
    ("(name='orders')", "tierlog_topic", "names the topic"),
    ("(partition=3)", "tierlog_topic", "Unknown topic config name: partition"),
    ("(3)", "tierlog_broker", "add the fixture tierlog_topic to its arguments"),
]


@pytest.mark.slow
def test_a_mark_is_read_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(RIGHT)
    ran = run(tmp_path)
    assert "7 passed" in ran.stdout, ran.stdout
    assert "failed" not in ran.stdout


@pytest.mark.slow
def test_a_mark_that_is_wrong_is_refused(tmp_path: Path) -> None:
    tests = [
        f"@pytest.mark.tierlog_topic{mark}\ndef test_{number}({fixture}): pass\n"
        for number, (mark, fixture, _) in enumerate(WRONG)
    ]
    (tmp_path / "test_it.py").write_text("import pytest\n" + "".join(tests))
    ran = run(tmp_path, "-n", "0")
    assert " passed" not in ran.stdout, ran.stdout
    for _, _, sentence in WRONG:
        assert sentence in ran.stdout, ran.stdout
