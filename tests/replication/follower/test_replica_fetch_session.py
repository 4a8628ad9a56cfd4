"""The follower's session and the leader's agree about what is fetched, whatever gets lost."""

import random

import pytest
from hypothesis import given, strategies as st

from tierlog.broker.request.fetch_session import FetchContext, FetchSessionCache
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.messages.fetch import FetchRequest
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.follower.fetch_state import FollowedPartition
from tierlog.replication.follower.followed_partitions import Asked
from tierlog.replication.follower.follower_asks import FetchAsk, FollowerOptions
from tierlog.replication.follower.leader_requests import FetchLimits, Follower, fetch_request
from tierlog.replication.follower.replica_fetch_session import (
    ReplicaFetchSession,
    ReplicaId,
    SessionReaction,
    SessionRequest,
    epoch_after,
    replica_id_of,
)
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.replication.tiered_replicas import NOW_MS, TIERED
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

TOPIC_ID = Uuid(b"topic id, 16 by.")
NUMBERS = range(4)
_LOGS = LogManager(SimulatedFiles(SimulatedDisk()), ["/data"], TIERED)
_LOGS.start(NOW_MS)


def partition(number: int) -> FollowedPartition:
    name = TopicIdPartition(TOPIC_ID, "t", number)
    log = _LOGS.get_or_create_log(TopicPartition("t", number), TOPIC_ID, TIERED, NOW_MS)
    return FollowedPartition(name, log, FollowerOptions())


PARTITIONS = [partition(number) for number in NUMBERS]


def asked(number: int, offset: int = 0, epoch: int = 0) -> Asked:
    return Asked(PARTITIONS[number], FetchAsk(offset, epoch, -1, 0))


def key(number: int) -> ReplicaId:
    return ReplicaId(TOPIC_ID, number)


def numbers(request: SessionRequest) -> list[int]:
    return [each.partition.topic_id_partition.partition for each in request.send]


def established(*fetched: int) -> ReplicaFetchSession:
    """A session 7 in which these partitions are fetched from offset 0."""
    session = ReplicaFetchSession()
    for number in fetched:
        session.add(asked(number))
    session.next_request()
    reaction, _ = session.on_response(ErrorCode.NONE, 7, [key(number) for number in fetched])
    assert reaction is SessionReaction.ACCEPTED
    return session


def test_the_first_request_names_all_and_asks_for_a_session() -> None:
    session = ReplicaFetchSession()
    for number in (2, 0, 1):
        session.add(asked(number))
    request = session.next_request()
    assert (request.session_id, request.session_epoch, request.forget) == (0, 0, [])
    assert numbers(request) == [2, 0, 1]


def test_later_requests_name_only_what_is_new() -> None:
    session = established(0, 1, 2)
    assert session.take(key(1)) is not None
    session.add(asked(1, offset=5))
    request = session.next_request()
    assert (request.session_id, request.session_epoch) == (7, 1)
    assert numbers(request) == [1]
    assert request.forget == []
    # The others are still fetched, so their asks wait on.
    session.on_response(ErrorCode.NONE, 7, [key(0)])
    assert session.take(key(0)) is not None
    assert len(session.outstanding) == 2


def test_the_same_ask_again_is_not_sent_again() -> None:
    session = established(0, 1)
    session.take(key(0))
    session.add(asked(0))
    request = session.next_request()
    assert (numbers(request), request.forget) == ([], [])


@pytest.mark.parametrize("changed", [asked(0, offset=1), asked(0, epoch=1)])
def test_a_changed_ask_is_sent(changed: Asked) -> None:
    session = established(0, 1)
    session.add(changed)
    assert session.next_request().send == [changed]


def test_a_partition_that_waits_or_has_left_is_forgotten_once() -> None:
    session = established(0, 1, 2)
    session.take(key(0))
    session.drop([PARTITIONS[2].topic_id_partition, PARTITIONS[3].topic_id_partition])
    request = session.next_request()
    assert sorted(request.forget) == [key(0), key(2)]
    session.on_response(ErrorCode.NONE, 7, [])
    assert session.next_request().forget == []


def test_the_response_for_a_partition_that_has_left_meets_no_ask() -> None:
    session = established(0, 1)
    session.next_request()
    session.drop([PARTITIONS[0].topic_id_partition])
    # It is no stranger: it was in the session when the request was sent.
    reaction, _ = session.on_response(ErrorCode.NONE, 7, [key(0)])
    assert reaction is SessionReaction.ACCEPTED
    assert session.take(key(0)) is None


def test_a_response_that_met_no_ask_makes_the_leader_answer_anew() -> None:
    """The partition has left and is back, so the leader's session holds an equal ask."""
    session = established(0, 1)
    session.next_request()
    session.drop([PARTITIONS[0].topic_id_partition])
    session.on_response(ErrorCode.NONE, 7, [key(0)])
    assert session.take(key(0)) is None
    session.add(asked(0))
    request = session.next_request()
    assert (request.session_id, request.session_epoch) == (7, 0)
    assert numbers(request) == [1, 0]


def test_offsets_that_were_not_used_make_the_leader_answer_anew() -> None:
    session = established(0, 1)
    assert session.take(key(0)) is not None
    session.on_unused(key(0))
    session.add(asked(0, offset=5))
    request = session.next_request()
    assert (request.session_id, request.session_epoch) == (7, 0)
    # Once is enough.
    session.on_response(ErrorCode.NONE, 8, [key(0), key(1)])
    request = session.next_request()
    assert (request.session_id, request.session_epoch) == (8, 1)


def test_a_partition_that_is_forgotten_is_answered_anew_anyway() -> None:
    session = established(0, 1)
    session.take(key(0))
    session.on_unused(key(0))
    request = session.next_request()
    assert (request.session_epoch, request.forget) == (1, [key(0)])
    session.on_response(ErrorCode.NONE, 7, [])
    session.add(asked(0))
    request = session.next_request()
    assert (request.session_epoch, numbers(request)) == (2, [0])


@pytest.mark.parametrize(
    ("error", "id_of_next"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 7),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 7),
    ],
)
def test_a_refused_session_begins_anew_at_once(error: ErrorCode, id_of_next: int) -> None:
    session = established(0, 1)
    session.next_request()
    reaction, problem = session.on_response(error, 0, [])
    assert reaction is SessionReaction.AGAIN
    assert error.name in problem
    request = session.next_request()
    assert (request.session_id, request.session_epoch) == (id_of_next, 0)
    assert numbers(request) == [0, 1]
    # A second refusal is a reason to wait.
    reaction, _ = session.on_response(error, 0, [])
    assert reaction is SessionReaction.REFUSED


def test_a_leader_without_room_gets_full_requests() -> None:
    session = ReplicaFetchSession()
    session.add(asked(0))
    for _ in range(2):
        assert session.next_request() == SessionRequest(0, 0, [asked_now(session)], [])
        reaction, _ = session.on_response(ErrorCode.NONE, 0, [key(0)])
        assert reaction is SessionReaction.ACCEPTED


def asked_now(session: ReplicaFetchSession) -> Asked:
    (only,) = session.outstanding
    return only


def test_a_response_with_a_stranger_or_without_a_partition_is_refused() -> None:
    session = established(0)
    session.next_request()
    reaction, problem = session.on_response(ErrorCode.NONE, 7, [key(3)])
    assert reaction is SessionReaction.AGAIN
    assert problem == "The response has 1 partition(s) that were not requested."
    session.next_request()
    reaction, problem = session.on_response(ErrorCode.NONE, 7, [])
    assert reaction is SessionReaction.REFUSED
    assert problem == "The response to a full request has 0 partition(s) of 1."


def test_a_lost_request_gives_all_asks_back() -> None:
    session = established(0, 1)
    session.next_request()
    assert len(session.lose()) == 2
    assert not session.outstanding
    session.add(asked(1))
    request = session.next_request()
    assert (request.session_id, request.session_epoch) == (7, 0)
    assert numbers(request) == [1]


def test_the_epoch_after_the_largest_is_one() -> None:
    assert epoch_after(0) == 1
    assert epoch_after(1) == 2
    assert epoch_after(0x7FFFFFFF) == 1


def over_the_wire(request: FetchRequest) -> FetchRequest:
    version = 17
    arrived, _ = decode(FetchRequest, version, memoryview(encode_bytes(request, version)))
    return arrived


class SessionWalk:
    """A follower and the sessions of a real leader, with losses between them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.session = ReplicaFetchSession()
        self.leader = FetchSessionCache(2, random.Random(seed))
        self.offset = 0

    def step(self) -> None:
        """Some partitions ask anew, some leave; then one request, whatever becomes of it."""
        for number in NUMBERS:
            is_outstanding = any(
                each.partition is PARTITIONS[number] for each in self.session.outstanding
            )
            chance = self.chance.random()
            if not is_outstanding and chance < 0.7:
                self.offset += 1
                self.session.add(asked(number, self.offset))
            elif chance > 0.9:
                self.session.drop([PARTITIONS[number].topic_id_partition])
        if not self.session.outstanding:
            return
        if self.chance.random() < 0.1:
            # The leader restarts, or others push the session out.
            self.leader = FetchSessionCache(self.chance.choice((0, 2)), self.chance)
        self.exchange(self.chance.random())

    def exchange(self, fate: float) -> None:
        sent = self.session.next_request()
        if fate < 0.1:
            self.session.lose()
            return
        request = over_the_wire(fetch_request(Follower(1, 1), FetchLimits(), sent))
        try:
            context = self.leader.begin(request, is_follower=True, now_ms=NOW_MS)
        except KafkaError as error:
            reaction, _ = self.session.on_response(error.code, 0, [])
            assert reaction is SessionReaction.AGAIN
            return
        self.check_same(context)
        if fate < 0.2:
            self.session.lose()
            return
        fetched = [ReplicaId(each.topic_id, each.request.partition) for each in context.partitions]
        shown = (
            [each for each in fetched if self.chance.random() < 0.5]
            if context.is_incremental
            else fetched
        )
        session_id = 0 if context.session is None else context.session.session_id
        reaction, problem = self.session.on_response(ErrorCode.NONE, session_id, shown)
        assert reaction is SessionReaction.ACCEPTED, problem
        for each in shown:
            assert self.session.take(each) is not None

    def check_same(self, context: FetchContext) -> None:
        """What the leader fetches is what waits for a response, from the same offset."""
        theirs = {
            ReplicaId(each.topic_id, each.request.partition): each.request.fetch_offset
            for each in context.partitions
        }
        ours: dict[ReplicaId, int] = {}
        for each in self.session.outstanding:
            assert isinstance(each.ask, FetchAsk)
            ours[replica_id_of(each.partition.topic_id_partition)] = each.ask.offset
        assert theirs == ours


@given(seed=st.integers(0, 10**9))
def test_the_leader_fetches_exactly_what_waits_for_a_response(seed: int) -> None:
    walk = SessionWalk(seed)
    for _ in range(60):
        walk.step()
