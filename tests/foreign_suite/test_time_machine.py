"""Another time of day, by time-machine; the broker goes by the real one."""

import datetime

import pytest
import time_machine
from kafka_clients import consume, produce, stored

MOMENTS = [datetime.datetime(year, 1, 1, tzinfo=datetime.UTC) for year in (2001, 2020, 2050)]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: str(moment.year))
@pytest.mark.parametrize("tick", [True, False], ids=["goes on", "stands still"])
def test_an_order_arrives(tierlog_broker, tierlog_topic, tierlog_group, moment, tick):
    with time_machine.travel(moment, tick=tick):
        produce(tierlog_broker, tierlog_topic, b"one pear")
        assert consume(tierlog_broker, tierlog_topic, tierlog_group, 1) == [b"one pear"]


def test_the_fixture(tierlog_broker, tierlog_topic, time_machine):
    time_machine.move_to(MOMENTS[1])
    produce(tierlog_broker, tierlog_topic, str(datetime.date.today()).encode())
    time_machine.shift(datetime.timedelta(days=1))
    produce(tierlog_broker, tierlog_topic, str(datetime.date.today()).encode())
    assert stored(tierlog_broker, tierlog_topic) == [b"2020-01-01", b"2020-01-02"]
