"""Three or more members exchange messages in any order, with losses, cuts of power and time.

Whatever happens: one vote for each epoch and member, one leader for each epoch, no epoch and no
high watermark falls, and what is committed stays, with every later leader, where it was.
"""

from collections.abc import Callable

from hypothesis import given, settings, strategies as st

from tierlog.replication.raft.raft_actions import Send, Token
from tierlog.replication.raft.raft_messages import VoteResponse
from tierlog.tests.replication.raft.members import Batch, Member, voters_of


class Chaos:
    """Members, the messages between them, and what has been seen of them."""

    def __init__(self, count: int) -> None:
        voters = voters_of(*range(1, count + 1))
        self.members = [Member(node_id, voters, seed=node_id) for node_id in voters.ids]
        self.now_ms = 0
        self.requests: list[tuple[Member, Send]] = []
        self.responses: list[tuple[Member, Send, Member, Token]] = []
        self.votes: dict[tuple[int, int], int] = {}
        self.leaders: dict[int, int] = {}
        self.committed: list[Batch] = []
        self.values = 0
        for member in self.members:
            member.start()
        self._look()

    def step(self, kind: int, choice: int) -> None:
        """Do one of the things that can happen."""
        steps: list[Callable[[int], None]] = [
            self._deliver_request,
            self._deliver_request,
            self._deliver_response,
            self._deliver_response,
            self._repeat_request,
            self._lose,
            self._pass_time,
            self._append,
            self._flush,
            self._cut_power,
            self._hold_flushes,
        ]
        steps[kind % len(steps)](choice)
        self._look()

    def _deliver_request(self, choice: int, *, repeats: bool = False) -> None:
        if not self.requests:
            return self._pass_time(choice)
        index = choice % len(self.requests)
        sender, send = self.requests[index] if repeats else self.requests.pop(index)
        target = self.members[int(send.destination.address.host.removeprefix("node")) - 1]
        token = object()
        target.perform(target.core.handle_request(token, send.request, self.now_ms))
        self.responses.append((sender, send, target, token))

    def _repeat_request(self, choice: int) -> None:
        self._deliver_request(choice, repeats=True)

    def _deliver_response(self, choice: int) -> None:
        ready = [each for each in self.responses if each[2].response_to(each[3]) is not None]
        if not ready:
            return self._deliver_request(choice)
        entry = ready[choice % len(ready)]
        sender, send, target, token = entry
        self.responses.remove(entry)
        response = target.response_to(token)
        assert response is not None
        sender.perform(sender.core.handle_response(send.request_id, response, self.now_ms))

    def _lose(self, choice: int) -> None:
        if self.requests:
            sender, send = self.requests.pop(choice % len(self.requests))
            sender.perform(sender.core.handle_failure(send.request_id, self.now_ms))

    def _pass_time(self, choice: int) -> None:
        deadlines = [each.core.deadline_ms for each in self.members]
        self.now_ms = max(self.now_ms, min(each for each in deadlines if each is not None))
        self.now_ms += choice % 50
        for member in self.members:
            member.at(self.now_ms)

    def _append(self, choice: int) -> None:
        leaders = [each for each in self.members if each.core.is_leader]
        if leaders:
            self.values += 1
            leaders[choice % len(leaders)].append(f"value {self.values}")

    def _flush(self, choice: int) -> None:
        self._member(choice).flush()

    def _hold_flushes(self, choice: int) -> None:
        member = self._member(choice)
        member.holds_flushes = not member.holds_flushes
        if not member.holds_flushes:
            member.flush()

    def _cut_power(self, choice: int) -> None:
        member = self._member(choice)
        member.now_ms = self.now_ms
        self.requests = [each for each in self.requests if each[0] is not member]
        self.responses = [each for each in self.responses if each[0] is not member]
        member.restart()

    def _member(self, choice: int) -> Member:
        return self.members[choice % len(self.members)]

    def _look(self) -> None:
        for member in self.members:
            member.now_ms = self.now_ms
            self.requests += ((member, send) for send in member.sent)
            member.sent.clear()
            assert member.fatal is None
            assert member.core.epoch == member.persisted.epoch
            self._look_at_votes(member)
            self._look_at_log(member)

    def _look_at_votes(self, member: Member) -> None:
        persisted = member.persisted
        if persisted.voted_key is not None:
            vote = self.votes.setdefault((member.node_id, persisted.epoch), persisted.voted_key.id)
            assert vote == persisted.voted_key.id, "two votes in one epoch"
        if persisted.leader_id is not None:
            leader = self.leaders.setdefault(persisted.epoch, persisted.leader_id)
            assert leader == persisted.leader_id, "two leaders in one epoch"
        for _, response in member.replies[-1:]:
            if isinstance(response, VoteResponse) and response.vote_granted:
                assert response.leader_epoch <= persisted.epoch, "a vote that is not on the disk"

    def _look_at_log(self, member: Member) -> None:
        for batch in member.log.batches[: member.high_watermark]:
            if batch.base_offset == len(self.committed):
                self.committed.append(batch)
            assert self.committed[batch.base_offset] == batch, "what is committed has changed"
        if member.core.is_leader:
            latest = max(each.core.epoch for each in self.members)
            if member.core.epoch == latest:
                assert member.log.batches[: len(self.committed)] == self.committed

    def heal(self) -> None:
        """Nothing goes wrong any more for a while."""
        for member in self.members:
            member.holds_flushes = False
            member.flush()
        for _ in range(4000):
            self._deliver_response(0)
            self._look()
            if self.has_settled():
                return
        raise AssertionError("no leader, or it commits nothing")

    def has_settled(self) -> bool:
        """Whether one leader has everything committed, and all know that."""
        leaders = [each for each in self.members if each.core.is_leader]
        return len(leaders) == 1 and all(
            each.core.leader_id == leaders[0].node_id
            and each.log.batches == leaders[0].log.batches
            and each.high_watermark == leaders[0].log.end_offset
            for each in self.members
        )


_STEPS = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 50)), max_size=400)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), _STEPS)
def test_whatever_happens_to_the_members(count: int, steps: list[tuple[int, int]]) -> None:
    chaos = Chaos(count)
    for kind, choice in steps:
        chaos.step(kind, choice)
    chaos.heal()
