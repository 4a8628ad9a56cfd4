"""Levels that are stated when a broker starts, by Kafka's names."""

import logging

import pytest

from tierlog.broker.metrics.loggers import stated_levels
from tierlog.clients.errors import KafkaError


def test_a_level_alone_is_that_of_the_root_logger_and_the_last_one_counts() -> None:
    levels = stated_levels(["warn", "tierlog.tiering=DEBUG", "root=ERROR", "kafka.controller=Off"])
    assert levels == {
        "root": logging.ERROR,
        "tierlog.tiering": logging.DEBUG,
        "kafka.controller": logging.CRITICAL + 10,
    }


@pytest.mark.parametrize(
    "text", ["LOUD", "tierlog=", "=INFO", "", "a b=INFO", "tierlog=INFO=DEBUG"]
)
def test_what_states_no_level_is_refused_with_the_levels_that_there_are(text: str) -> None:
    with pytest.raises(KafkaError) as refused:
        stated_levels([text])
    assert text in refused.value.message
    assert "TRACE, DEBUG, INFO, WARN, ERROR, FATAL" in refused.value.message
