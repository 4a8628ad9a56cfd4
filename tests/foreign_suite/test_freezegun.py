"""Time that stands still, by freezegun; the broker and the clients go by the real one."""

import datetime
import time

import pytest
from freezegun import freeze_time
from kafka_clients import consume, produce, stored

MOMENTS = ["2001-09-09", "2020-01-01 12:00:00", "2050-12-31"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_consumer_joins_its_group(tierlog_broker, tierlog_topic, tierlog_group, moment):
    with freeze_time(moment):
        produce(tierlog_broker, tierlog_topic, b"one pear")
        assert consume(tierlog_broker, tierlog_topic, tierlog_group, 1) == [b"one pear"]


@freeze_time("2020-01-01")
def test_a_whole_test(tierlog_broker, tierlog_topic):
    produce(tierlog_broker, tierlog_topic, str(datetime.date.today()).encode())
    assert stored(tierlog_broker, tierlog_topic) == [b"2020-01-01"]


def test_time_that_goes_on_from_there(tierlog_broker, tierlog_topic, tierlog_group):
    with freeze_time("2020-01-01", tick=True):
        produce(tierlog_broker, tierlog_topic, b"one pear")
        assert consume(tierlog_broker, tierlog_topic, tierlog_group, 1) == [b"one pear"]


def test_time_that_jumps(tierlog_broker, tierlog_topic):
    with freeze_time("2020-01-01") as frozen:
        for days in range(3):
            frozen.tick(datetime.timedelta(days=days))
            produce(tierlog_broker, tierlog_topic, time.strftime("%d").encode())
        tierlog_broker.offload(tierlog_topic)
        assert stored(tierlog_broker, tierlog_topic) == [b"01", b"02", b"04"]
