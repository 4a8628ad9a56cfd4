"""The lines of the session's broker: in reports of tests that fail, and in no test's own log."""

from pathlib import Path

import pytest

from tierlog.tests.testing.plugin_runs import run

QUIET = """
import io
import logging
import logging.config
import pytest
from confluent_kafka import Producer

def use(broker, topic):
    producer = Producer(broker.config())
    producer.produce(topic, b"one pear")
    assert producer.flush(60) == 0
    broker.offload(topic)
    broker.create_topic(f"{topic}-more")
    broker.delete_topic(f"{topic}-more")

@pytest.mark.parametrize("level", ["WARNING", "INFO", "DEBUG"])
def test_only_what_the_application_logs(tierlog_broker, tierlog_topic, caplog, level):
    caplog.set_level(level)
    use(tierlog_broker, tierlog_topic)
    logging.getLogger("app").error("mine")
    assert [record.name for record in caplog.records] == ["app"]
    assert [record.name for record in caplog.get_records("setup")] == []
    assert "tierlog" not in caplog.text

def test_a_handler_of_the_application(tierlog_broker, tierlog_topic):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    use(tierlog_broker, tierlog_topic)
    logging.getLogger("app").error("mine")
    logging.getLogger().removeHandler(handler)
    assert stream.getvalue() == "mine\\n"

@pytest.mark.parametrize("keep", [True, False])
def test_1_a_configuration_of_all_loggers(tierlog_broker, tierlog_topic, capsys, keep):
    logging.config.dictConfig({
        "version": 1,
        "disable_existing_loggers": not keep,
        "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}},
        "root": {"level": "DEBUG", "handlers": ["out"]},
    })
    use(tierlog_broker, tierlog_topic)
    logging.getLogger(f"later{keep}").error("mine")
    logging.getLogger().handlers.clear()
    assert capsys.readouterr().out == "mine\\n"

def test_2_all_is_off(tierlog_broker, tierlog_topic, caplog):
    logging.disable(logging.CRITICAL)
    use(tierlog_broker, tierlog_topic)
    logging.disable(logging.NOTSET)
    assert caplog.records == []
"""
LOUD = (
    QUIET
    + """
def test_3_fails(tierlog_broker, tierlog_topic):
    use(tierlog_broker, tierlog_topic)
    raise ValueError
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="plain"),
        pytest.param(("-n", "2"), id="xdist"),
        pytest.param(("--log-level", "DEBUG"), id="log-level"),
        pytest.param(("-o", "log_cli=true", "-o", "log_cli_level=DEBUG"), id="live"),
    ],
)
def test_no_line_of_the_broker_is_in_a_test_s_log(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(QUIET)
    ran = run(tmp_path, *options)
    assert "7 passed" in ran.stdout, ran.stdout
    assert "Created topic" not in ran.stdout, ran.stdout


@pytest.mark.slow
def test_a_failing_test_shows_them_whatever_the_tests_before_have_configured(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_it.py").write_text(LOUD)
    ran = run(tmp_path)
    assert "1 failed, 7 passed" in ran.stdout, ran.stdout
    section = ran.stdout.partition("- tierlog broker log -")[2]
    assert "Created topic test-3-fails" in section, ran.stdout
    assert "all-is-off" not in section, "These lines are of the test before."
