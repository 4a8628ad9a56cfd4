"""A broker that has tiered topics does not start without its tier."""

import pytest

from tierlog.broker.broker import StartError
from tierlog.clients.admin import Admin, NewTopic
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork, on_host

pytestmark = pytest.mark.scenario("7")


def story_of(enable: str, *, starts: bool) -> None:
    async def story(loop: SimulatedLoop) -> None:
        loop.network = network = SimulatedNetwork(loop)
        tier = {"rsm.config.url": f"memory://switched-off-{enable}"}
        broker = SimulatedBroker(loop, network, tier)
        await broker.start()
        environment = SimulatedEnvironment(loop, "admin")
        with on_host("client"):
            async with Admin(broker.bootstrap, environment=environment) as admin:
                topic = NewTopic("orders", 1, 1, {"remote.storage.enable": enable})
                await admin.create_topics([topic])
        await broker.stop()
        broker.properties["remote.log.storage.system.enable"] = "false"
        if starts:
            await broker.start()
            await broker.stop()
            return
        with pytest.raises(StartError) as refused:
            await broker.start()
        assert str(refused.value) == (
            "You have to delete all topics with the property remote.storage.enable=true before "
            "disabling tiered storage cluster-wide (orders has it)."
        )

    simulate(story)


def test_a_topic_that_is_tiered_needs_the_tier() -> None:
    story_of("true", starts=False)


def test_a_topic_that_says_it_is_not_does_not() -> None:
    story_of("false", starts=True)
