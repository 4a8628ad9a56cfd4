"""When a controller hears that it leads: after all that was before, and not a moment too long."""

import asyncio
import errno
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.replication.metadata.metadata_log import open_metadata_log
from tierlog.replication.metadata.metadata_records import TopicRecord
from tierlog.replication.metadata.quorum_member import QuorumMember
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_messages import VoteRequest, VoteResponse
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.files import OsFiles

from ..quorum.one_voter import HeldExecutor, NoTransport
from ..quorum.quorum_nodes import LISTENER, voters_at

ELECTED, DEPOSED, FAILED = "elected in epoch %d after offset %d", "deposed", "failed"


class OneVoter:
    """A member that is the only voter, so that it wins every election, and what it says."""

    def __init__(self, directory: Path) -> None:
        environment = SystemEnvironment()
        self.log_dir = LogDir(OsFiles(), str(directory))
        self.log = open_metadata_log(self.log_dir, 1, environment.wall_clock_ms())
        voters = voters_at({1: 9093})
        endpoints = next(iter(voters)).endpoints
        options = RaftOptions(1, endpoints=endpoints, election_timeout_ms=50)
        storage = self.log.raft_storage(environment)
        core = RaftCore(options, storage, voters, ElectionState(), random.Random(1))
        self.executor = HeldExecutor()
        self.member = QuorumMember(1, core, storage, NoTransport(), self.executor)
        self.heard: list[str] = []
        self.high_watermark = 0
        self.refuses: KafkaError | None = None
        self.has_replayed = True
        self.turns = 0
        self.fails_to_replay: Exception | None = None

    def on_high_watermark(self, offset: int) -> bool:
        self.high_watermark = offset
        if self.fails_to_replay is not None:
            raise self.fails_to_replay
        self.turns += 1
        return self.has_replayed

    def on_elected(self, epoch: int) -> None:
        if self.refuses is not None:
            refusal, self.refuses = self.refuses, None
            raise refusal
        self.heard.append(ELECTED % (epoch, self.high_watermark - 1))

    def on_deposed(self) -> None:
        self.heard.append(DEPOSED)

    def on_snapshot_loaded(self) -> None:
        raise AssertionError("there is no leader to load one from")

    def on_quorum_failure(self, message: str) -> None:
        self.heard.append(FAILED)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():  # noqa: ASYNC110 -- the condition has no event of its own
                await asyncio.sleep(0.005)


@asynccontextmanager
async def one_voter(directory: Path) -> AsyncGenerator[OneVoter, None]:
    voter = OneVoter(directory)
    try:
        yield voter
    finally:
        voter.executor.may_end.set()
        await voter.member.stop(5)
        voter.executor.shutdown()


async def test_it_claims_the_lead_when_the_start_of_its_epoch_is_committed(tmp_path: Path) -> None:
    async with one_voter(tmp_path) as voter:
        changes: list[int] = []
        member = voter.member
        member.on_leader_change(lambda: changes.append(member.leader_id))
        assert (member.leader_id, member.leader_address) == (-1, None)
        voter.executor.hold()
        await member.start(voter)
        assert await asyncio.to_thread(voter.executor.began.wait, 30)
        assert member.quorum.is_leader
        assert changes == [1]
        assert member.leader_address == voters_at({1: 9093}).address(1, LISTENER)
        assert voter.heard == [], "the start of the epoch is not committed yet"
        voter.executor.may_end.set()
        await voter.until(lambda: voter.heard != [])
        assert voter.heard == [ELECTED % (1, 0)]


async def test_it_claims_nothing_while_the_controller_still_replays(tmp_path: Path) -> None:
    async with one_voter(tmp_path) as voter:
        voter.has_replayed = False
        await voter.member.start(voter)
        await voter.until(lambda: voter.turns > 2)
        # In between, the quorum answers other nodes.
        asked = VoteRequest(None, 1, ZERO_UUID, 2, ZERO_UUID, 1, 0, 0, pre_vote=True)
        answer = await voter.member.quorum.handle(asked)
        assert isinstance(answer.response, VoteResponse)
        assert voter.heard == []
        voter.has_replayed = True
        await voter.until(lambda: voter.heard != [])
        assert voter.heard == [ELECTED % (1, 0)]


async def test_a_log_that_cannot_be_replayed_in_a_later_turn_ends_its_part(tmp_path: Path) -> None:
    async with one_voter(tmp_path) as voter:
        voter.has_replayed = False
        await voter.member.start(voter)
        await voter.until(lambda: voter.turns > 2)
        voter.fails_to_replay = KafkaError(ErrorCode.INVALID_RECORD, "No.")
        await voter.until(lambda: voter.heard != [])
        assert voter.heard == [FAILED]


async def test_a_claim_does_not_outlive_a_newer_leader(tmp_path: Path) -> None:
    async with one_voter(tmp_path) as voter:
        voter.executor.hold()
        await voter.member.start(voter)
        assert await asyncio.to_thread(voter.executor.began.wait, 30)
        voter.member.on_leader(2, 7, -1)
        voter.executor.may_end.set()
        await voter.until(lambda: voter.high_watermark > 0)
        assert voter.heard == []


async def test_it_resigns_at_once_and_once_and_leads_again_in_a_later_epoch(tmp_path: Path) -> None:
    async with one_voter(tmp_path) as voter:
        member = voter.member
        await member.start(voter)
        await voter.until(lambda: voter.heard != [])
        epoch = member.quorum.epoch
        offset = member.append([TopicRecord(name="appended")], epoch)
        await member.resign()
        assert voter.heard == [ELECTED % (epoch, 0), DEPOSED]
        await member.resign()
        await voter.until(lambda: len(voter.heard) > 2)
        assert voter.heard[:2] == [ELECTED % (epoch, 0), DEPOSED]
        later = member.quorum.epoch
        assert later > epoch
        assert voter.heard[2:] == [ELECTED % (later, offset + 1)]
        with pytest.raises(KafkaError) as refused:
            member.append([TopicRecord(name="too late")], epoch)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert voter.log.end_offset == offset + 2


async def test_an_append_that_the_disk_refuses_costs_the_lead(tmp_path: Path) -> None:
    async with one_voter(tmp_path) as voter:
        await voter.member.start(voter)
        await voter.until(lambda: voter.heard != [])
        voter.log_dir.fail(OSError(errno.EIO, "Input/output error"))
        with pytest.raises(KafkaError) as refused:
            voter.member.append([TopicRecord(name="lost")], voter.member.quorum.epoch)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        await voter.until(lambda: DEPOSED in voter.heard)
        assert not voter.member.quorum.is_leader


@pytest.mark.parametrize("code", [ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.KAFKA_STORAGE_ERROR])
async def test_a_controller_that_cannot_begin_gives_up_the_lead(
    tmp_path: Path, code: ErrorCode
) -> None:
    async with one_voter(tmp_path) as voter:
        voter.refuses = KafkaError(code, "No.")
        await voter.member.start(voter)
        await voter.until(lambda: voter.member.quorum.epoch > 1)
        failed = [FAILED] if code is ErrorCode.KAFKA_STORAGE_ERROR else []
        assert voter.heard[: 1 + len(failed)] == [DEPOSED, *failed]


async def test_a_member_that_was_not_started_stops(tmp_path: Path) -> None:
    async with one_voter(tmp_path) as voter:
        assert not voter.member.quorum.is_leader
