"""A group outlives its coordinator: members and positions come back from `__consumer_offsets`."""

from pathlib import Path

import pytest

from tierlog.bench.probe import free_port

from ..broker_process import BrokerProcess
from .group_of_processes import GroupOfProcesses
from .test_groups_of_three import create_topic, group_on, produce


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
@pytest.mark.parametrize("dies", [True, False], ids=["killed", "stopped"])
def test_members_carry_on_with_a_restarted_coordinator(
    tmp_path: Path, client: str, dies: bool
) -> None:
    port = free_port()
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with BrokerProcess.on(tmp_path, settings) as broker:
        create_topic(broker.bootstrap)
        produce(broker.bootstrap, 20)
        with group_on(broker, client, "range", tmp_path) as group:
            anna = group.start("anna")
            group.start("lena")
            group.wait_for_shares(3, 3)
            group.wait_until_read(120)
            owned = anna.owned
            if dies:
                broker.kill()
            else:
                broker.stop()
            with BrokerProcess.on(tmp_path, settings) as restarted:
                produce(restarted.bootstrap, 20)
                group.wait_until_read(240)
                # The generation was in the log: nobody had to join again.
                assert anna.owned == owned, group.describe()
                group.check_ownership()
                check_resumption(restarted, client, group, tmp_path)


def check_resumption(
    broker: BrokerProcess, client: str, group: GroupOfProcesses, path: Path
) -> None:
    """Who comes when the others have left begins where they had committed."""
    for member in group.members:
        member.leave()
    produce(broker.bootstrap, 1)
    with group_on(broker, client, "range", path) as later:
        mona = later.start("mona")
        later.wait_until_read(6)
        assert mona.read == {(partition, 40) for partition in range(6)}
