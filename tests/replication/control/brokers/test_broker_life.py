"""A broker's life from its start to its end."""

from tierlog.replication.control.brokers.broker_life import (
    TRANSITIONS,
    BrokerLife,
    LifeEvent,
    request_delay_ms,
)


def test_a_broker_starts_runs_and_stops() -> None:
    life = BrokerLife.STARTING
    for event in LifeEvent:
        life = TRANSITIONS[life, event]
    assert life is BrokerLife.SHUTTING_DOWN


def test_only_a_broker_that_catches_up_asks_more_often() -> None:
    assert request_delay_ms(BrokerLife.STARTING, 2000, has_answer=True) == 10
    assert request_delay_ms(BrokerLife.STARTING, 2000, has_answer=False) == 2000
    assert request_delay_ms(BrokerLife.RUNNING, 2000, has_answer=True) == 2000
