"""Tests of what the application logs: no line of the broker is among it."""

import logging
import logging.config

import pytest
from kafka_clients import produce, stored

log = logging.getLogger("shop")


def use(broker, topic):
    produce(broker, topic, b"one pear")
    broker.offload(topic)
    assert stored(broker, topic) == [b"one pear"]


@pytest.mark.parametrize("level", [logging.WARNING, logging.INFO, logging.DEBUG])
def test_its_records_alone(tierlog_broker, tierlog_topic, caplog, level):
    caplog.set_level(level)
    use(tierlog_broker, tierlog_topic)
    log.warning("sold out")
    assert [record.name for record in caplog.records] == ["shop"]


def test_its_text_alone(tierlog_broker, tierlog_topic, caplog):
    caplog.set_level(logging.INFO)
    use(tierlog_broker, tierlog_topic)
    log.info("sold")
    assert caplog.messages == ["sold"]


def test_nothing(tierlog_broker, tierlog_topic, caplog):
    with caplog.at_level(logging.DEBUG):
        use(tierlog_broker, tierlog_topic)
    assert caplog.text == ""


def test_logging_that_is_off(tierlog_broker, tierlog_topic, caplog):
    logging.disable(logging.CRITICAL)
    use(tierlog_broker, tierlog_topic)
    logging.disable(logging.NOTSET)
    assert caplog.records == []


def test_a_configuration_of_its_own(tierlog_broker, tierlog_topic, capsys):
    logging.config.dictConfig(
        {
            "version": 1,
            "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}},
            "loggers": {"stock": {"level": "INFO", "handlers": ["out"]}},
            "root": {"level": "INFO", "handlers": ["out"]},
        }
    )
    use(tierlog_broker, tierlog_topic)
    logging.getLogger("stock").propagate = False
    logging.getLogger("stock").info("empty")
    logging.getLogger().handlers.clear()
    logging.getLogger("shop").disabled = False
    assert capsys.readouterr().out == "empty\n"
