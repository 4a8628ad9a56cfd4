"""The shell of a quorum performs actions in order, also where an fsync takes its time."""

import asyncio
import random
from pathlib import Path

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.replication.metadata.metadata_log import open_metadata_log
from tierlog.replication.metadata.metadata_records import TopicRecord
from tierlog.replication.quorum import quorum
from tierlog.replication.quorum.quorum import Quorum
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_actions import Action, Flush, TruncateTo
from tierlog.replication.raft.raft_messages import FetchRequest
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.files import OsFiles

from ...waiting import wait_until
from .one_voter import HeldExecutor, NoTransport
from .quorum_nodes import Notifications, voters_at


class ScriptedCore(RaftCore):
    """A sole voter whose next action can be written by a test."""

    def act(self, *actions: Action) -> None:
        self.script = list(actions)

    def handle_log_changed(self, now_ms: int) -> list[Action]:
        script, self.script = getattr(self, "script", []), []
        return script or super().handle_log_changed(now_ms)


class SoleVoter:
    """One voter on a directory of the real disk."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        environment = SystemEnvironment()
        now_ms = environment.wall_clock_ms()
        self.log = open_metadata_log(LogDir(OsFiles(), str(directory)), 1, now_ms)
        self.storage = self.log.raft_storage(environment)
        voters = voters_at({1: 1})
        self.core = ScriptedCore(
            RaftOptions(1), self.storage, voters, ElectionState(), random.Random(1)
        )
        self.notifications = Notifications()
        self.executor = HeldExecutor()
        self.quorum = Quorum(
            self.core, self.storage, NoTransport(), self.notifications, self.executor
        )

    def append(self, name: str) -> int:
        return self.storage.append([TopicRecord(name=name)], self.quorum.epoch)

    async def until(self, offset: int) -> None:
        async with asyncio.timeout(30):
            while self.notifications.high_watermark < offset:
                self.notifications.moved.clear()
                await self.notifications.moved.wait()


async def test_a_sole_voter_leads_when_its_start_returns(tmp_path: Path) -> None:
    voter = SoleVoter(tmp_path)
    await voter.quorum.start()
    assert voter.quorum.is_leader
    assert voter.notifications.leaders == [(1, 1)]
    end = voter.append("a") + 1
    voter.quorum.appended()
    await voter.until(end)
    await voter.quorum.stop(5)
    voter.executor.shutdown()


async def test_a_truncation_waits_for_the_fsync_of_what_it_truncates(tmp_path: Path) -> None:
    voter = SoleVoter(tmp_path)
    await voter.quorum.start()
    committed = voter.append("committed") + 1
    voter.quorum.appended()
    await voter.until(committed)

    voter.executor.hold()
    voter.executor.began.clear()
    voter.append("truncated")
    voter.core.act(Flush(), TruncateTo(committed))
    voter.quorum.appended()
    assert await asyncio.to_thread(voter.executor.began.wait, 30)
    await asyncio.sleep(0.05)
    assert voter.storage.end_offset == committed + 1, "what is being synced is still there"
    voter.executor.may_end.set()
    await asyncio.to_thread(
        wait_until, lambda: voter.storage.end_offset == committed, 30, "the truncation"
    )
    await voter.quorum.abort()
    voter.executor.shutdown()

    # A power loss now: the start must not miss what was truncated on purpose.
    try:
        again = open_metadata_log(LogDir(OsFiles(), str(tmp_path)), 1, 0)
    except KafkaError as error:
        raise AssertionError(error.message) from error
    assert again.end_offset == committed
    assert voter.storage.flushed_offset == committed


async def test_what_is_appended_during_an_fsync_is_synced_by_the_next_one(tmp_path: Path) -> None:
    voter = SoleVoter(tmp_path)
    await voter.quorum.start()
    await voter.until(1)
    voter.executor.hold()
    voter.executor.began.clear()
    voter.append("first")
    voter.quorum.appended()
    assert await asyncio.to_thread(voter.executor.began.wait, 30)
    before, end = voter.executor.fsyncs, 0
    for number in range(20):
        end = voter.append(f"during-{number}") + 1
        voter.quorum.appended()
        await asyncio.sleep(0)
    voter.executor.may_end.set()
    await voter.until(end)
    assert voter.executor.fsyncs == before + 1
    await voter.quorum.stop(5)
    voter.executor.shutdown()


async def test_of_too_many_that_wait_the_next_is_refused_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum, "_REQUESTS_MAX", 3)
    voter = SoleVoter(tmp_path)
    await voter.quorum.start()
    end = voter.append("a") + 1
    voter.quorum.appended()
    await voter.until(end)
    epoch = voter.quorum.epoch
    fetch = FetchRequest(None, 9, ZERO_UUID, epoch, end, epoch, end, 600_000)
    waiting = [asyncio.ensure_future(voter.quorum.handle(fetch)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(KafkaError, match="BROKER_NOT_AVAILABLE"):
        await voter.quorum.handle(fetch)
    # Those that wait are answered when there is something, and then there is room again.
    voter.append("b")
    voter.quorum.appended()
    assert len(await asyncio.gather(*waiting)) == 3
    assert await voter.quorum.handle(fetch._replace(max_wait_ms=0))
    await voter.quorum.stop(5)
    voter.executor.shutdown()
