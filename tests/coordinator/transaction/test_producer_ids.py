"""Producer ids come from blocks of the controller's, and never twice."""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.coordinator.transaction.producer_ids import PRODUCER_ID_BLOCK_SIZE, ProducerIds

pytestmark = pytest.mark.usefixtures("loop")


class Controller:
    """Hands out blocks, slowly."""

    def __init__(self) -> None:
        self.next_id = 5_000
        self.requests = 0
        self.failure: KafkaError | None = None

    async def allocate(self, count: int) -> int:
        self.requests += 1
        await asyncio.sleep(0.1)
        if self.failure is not None:
            raise self.failure
        first, self.next_id = self.next_id, self.next_id + count
        return first


async def test_all_who_come_at_once_share_one_block() -> None:
    controller = Controller()
    ids = ProducerIds(controller.allocate)
    assert ids.next_if_there() is None
    found = await asyncio.gather(*(ids.next_id() for _ in range(10)))
    assert found == list(range(5_000, 5_010))
    assert controller.requests == 1
    assert ids.next_if_there() == 5_010


async def test_a_block_that_is_used_up_is_followed_by_the_next() -> None:
    controller = Controller()
    ids = ProducerIds(controller.allocate)
    found = [await ids.next_id() for _ in range(2 * PRODUCER_ID_BLOCK_SIZE + 1)]
    assert len(set(found)) == len(found)
    assert controller.requests == 3


async def test_a_controller_that_fails_is_asked_again() -> None:
    controller = Controller()
    ids = ProducerIds(controller.allocate)
    controller.failure = KafkaError(ErrorCode.NOT_CONTROLLER, "moved")
    with pytest.raises(KafkaError):
        await ids.next_id()
    controller.failure = None
    assert await ids.next_id() == 5_000
