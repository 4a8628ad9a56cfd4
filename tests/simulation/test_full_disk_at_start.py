"""A disk without room, or that refuses, ends a start with one sentence that says what to do."""

import errno

import pytest

from tierlog.broker.broker import StartError
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.disk import Fault, Kind
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork


def refusal_of_a_start(spoil: str, amount: int) -> str:
    """What a broker says that was killed, and whose disk was then spoilt; empty if it starts."""
    sentences: list[str] = []

    async def story(loop: SimulatedLoop) -> None:
        loop.network = network = SimulatedNetwork(loop)
        broker = SimulatedBroker(loop, network)
        await broker.start()
        broker.kill()
        if spoil == "room":
            broker.disk.capacity_bytes = broker.disk.used_bytes() + amount
        else:
            broker.disk.faults.append(Fault(Kind.WRITE, amount, times=1_000))
        try:
            await broker.start()
        except StartError as error:
            sentences.append(str(error))
        else:
            await broker.stop()

    simulate(story)
    return "".join(sentences)


@pytest.mark.parametrize("room", [0, 30, 100, 300, 1_000])
def test_a_full_disk_is_one_sentence(room: int) -> None:
    sentence = refusal_of_a_start("room", room)
    if room == 0:
        assert sentence
    if sentence:
        assert "\n" not in sentence
        assert "No space left on device" in sentence
        assert "free space" in sentence


def test_a_disk_that_may_not_be_written_is_one_sentence() -> None:
    sentence = refusal_of_a_start("writes", errno.EACCES)
    assert "\n" not in sentence
    assert "Permission denied" in sentence
    assert "log.dirs" in sentence
