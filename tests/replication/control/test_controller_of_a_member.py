"""The controller of a member of a quorum, while nothing is committed."""

import asyncio
import errno
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.messages.create_topics import CreateTopicsResponse
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.replication.control.controller import Controller
from tierlog.replication.control.controller_config import ControllerConfig
from tierlog.replication.control.controller_loop import ControllerTools
from tierlog.replication.control.controller_state import ControllerState
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.metadata_log import open_metadata_log
from tierlog.replication.metadata.quorum_member import QuorumMember
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.files import OsFiles

from ..node import CLUSTER_ID, creation
from ..quorum.one_voter import HeldExecutor, NoTransport
from ..quorum.quorum_nodes import voters_at
from .controller_nodes import eventually, register_broker_by

SIX = [f"topic-{number}" for number in range(6)]


class OneMember:
    """The controller of the only voter, which commits nothing while its fsyncs are held."""

    def __init__(self, directory: Path) -> None:
        environment = SystemEnvironment()
        self.log_dir = LogDir(OsFiles(), str(directory))
        self.log = open_metadata_log(self.log_dir, 1, environment.wall_clock_ms())
        storage = self.log.raft_storage(environment)
        core = RaftCore(
            RaftOptions(1), storage, voters_at({1: 1}), ElectionState(), random.Random(1)
        )
        self.executor = HeldExecutor()
        self.member = QuorumMember(1, core, storage, NoTransport(), self.executor)
        self.failures: list[str] = []
        self.controller = Controller(
            ControllerConfig(1),
            CLUSTER_ID,
            environment,
            self.log,
            ControllerTools(self.executor, Supervisor(random.Random(1)), self.failures.append),
            self.member,
        )

    async def create_one_by_one(self) -> "list[asyncio.Task[CreateTopicsResponse]]":
        """Ask for topics, each in a turn of its own."""
        creating: list[asyncio.Task[CreateTopicsResponse]] = []
        for name in SIX:
            creating.append(asyncio.create_task(self.controller.create_topics(creation(name))))
            for _ in range(10):
                await asyncio.sleep(0)
        return creating


@asynccontextmanager
async def one_member(directory: Path) -> AsyncGenerator[OneMember, None]:
    member = OneMember(directory)
    try:
        await member.controller.join()
        await eventually(lambda: member.controller.is_active)
        await register_broker_by(member.controller)
        yield member
    finally:
        member.executor.may_end.set()
        await member.controller.stop()
        member.executor.shutdown()


def codes(responses: "list[CreateTopicsResponse]") -> list[int]:
    return [response.topics[0].error_code for response in responses]


async def test_no_more_changes_are_appended_than_may_wait_for_their_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierlog.replication.control.controller_loop._PENDING_MAX", 2)

    async with one_member(tmp_path) as member:
        end, image = member.log.end_offset, member.controller.image
        member.executor.hold()
        creating = await member.create_one_by_one()
        # A topic and its partition, twice.
        assert member.log.end_offset == end + 4
        assert member.controller.image is image
        member.executor.may_end.set()
        assert codes(await asyncio.gather(*creating)) == [0] * 6
        assert sorted(member.controller.image.topics_by_name) == SIX


async def test_a_leader_is_deposed_before_it_has_published_all_that_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It replays the rest as a standby, and refuses who waits for it: it cannot answer for it."""
    monkeypatch.setattr("tierlog.replication.control.controller_loop._RECORDS_PER_TURN", 1)

    async with one_member(tmp_path) as member:
        member.executor.hold()
        creating = await member.create_one_by_one()
        published: list[int] = []

        def depose(image: ClusterImage, _: ClusterDelta) -> None:
            published.append(len(image.topics_by_name))
            if published == [0, 1, 2]:
                epoch = member.member.quorum.epoch
                asyncio.get_running_loop().call_soon(member.member.on_leader, 2, epoch + 1, -1)

        member.controller.subscribe(depose)
        member.executor.may_end.set()
        responses = await asyncio.gather(*creating)
        refused = codes(responses).count(ErrorCode.NOT_CONTROLLER)
        assert codes(responses) == [0] * (6 - refused) + [ErrorCode.NOT_CONTROLLER] * refused
        assert refused >= 2
        await eventually(lambda: published[-1] == 6)
        assert sorted(member.controller.image.topics_by_name) == SIX


async def test_a_stop_refuses_what_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierlog.replication.control.controller_loop._PENDING_MAX", 2)

    async with one_member(tmp_path) as member:
        member.executor.hold()
        creating = await member.create_one_by_one()
        stopping = asyncio.create_task(member.controller.stop())
        assert codes(await asyncio.gather(*creating)) == [ErrorCode.NOT_CONTROLLER] * 6
        member.executor.may_end.set()
        await stopping
        assert member.controller.state is ControllerState.STOPPED
        assert member.controller.image.topics_by_name == {}
        assert member.failures == []


@pytest.mark.parametrize("fails_in_quorum", [False, True])
async def test_a_disk_that_fails_ends_the_controller(tmp_path: Path, fails_in_quorum: bool) -> None:
    async with one_member(tmp_path) as member:
        roles: list[bool] = []
        member.controller.on_role_change(lambda: roles.append(member.controller.is_active))
        if fails_in_quorum:
            member.executor.hold()
            waiting = asyncio.create_task(member.controller.create_topics(creation("t")))
            await asyncio.sleep(0.02)
            member.member.on_failure("The metadata log could not be synced.")
            response = await waiting
        else:
            member.log_dir.fail(OSError(errno.EIO, "Input/output error"))
            response = await member.controller.create_topics(creation("t"))
        assert codes([response]) == [ErrorCode.NOT_CONTROLLER]
        assert member.controller.state is ControllerState.FAILED
        assert roles == [False]
        assert len(member.failures) == 1
        with pytest.raises(KafkaError) as refused:
            await member.controller.allocate_producer_ids()
        assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_what_the_local_snapshot_says_may_be_refused_before_the_quorum_begins(
    tmp_path: Path,
) -> None:
    member = OneMember(tmp_path)

    def refuse(_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No.")

    with pytest.raises(KafkaError, match="No"):
        await member.controller.join(refuse)
    assert (member.log.end_offset, member.member.quorum.epoch) == (0, 0)
    await member.controller.stop()
    member.executor.shutdown()
