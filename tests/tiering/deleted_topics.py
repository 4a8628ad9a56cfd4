"""Shared by tests: the deletion of a topic."""

from tierlog.clients.admin import Admin
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.whole_broker import TOPIC


async def delete_topic(loop: SimulatedLoop, broker: SimulatedBroker) -> None:
    environment = SimulatedEnvironment(loop, f"deleter at {loop.time()}")
    async with Admin(broker.bootstrap, environment=environment) as admin:
        await admin.delete_topics([TOPIC])
