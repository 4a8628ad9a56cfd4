"""A broker that is told to stop ends in time, whatever its clients do meanwhile."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tierlog.bench.harness.loads.client_process import start_client
from tierlog.bench.harness.loads.hostile.attacks import TOPIC
from tierlog.bench.harness.requests.admin import create_topic
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.waiting import wait_until

ATTACKS = ("pipelined_10", "parked", "never_reading", "unfinished", "slowloris", "junk")
"""Those on connections; what single requests cost is for tests of their handlers."""
STOPPED_WITHIN_S = 10.0


@pytest.mark.slow
def test_a_broker_ends_in_time_with_all_attacks_going_on(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path) as broker, ExitStack() as attackers:
        create_topic(broker.bootstrap, TOPIC, {"cleanup.policy": "compact"})
        fds = Path(f"/proc/{broker.process.pid}/fd")
        idle = len(list(fds.iterdir()))
        for name in ATTACKS:
            order = ("--bootstrap", broker.bootstrap, "--seconds", "240", "--weight", "0.1")
            attackers.enter_context(start_client("hostile.hostile", name, *order))
        wait_until(lambda: len(list(fds.iterdir())) > idle + 100, 180, "few of them connected")
        broker.process.terminate()
        assert broker.process.wait(STOPPED_WITHIN_S) == 0
    assert "Traceback" not in broker.log.read_text()
