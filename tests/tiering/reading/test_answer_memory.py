"""What remote answers may hold of the memory while their clients are slow."""

from hypothesis import given, strategies as st

from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tierlog.tiering.reading.answer_memory import LEAST_BYTES, AnswerMemory

MEBIBYTE = 1 << 20


def test_an_answer_counts_until_the_last_view_of_it_is_gone() -> None:
    memory = AnswerMemory(16 * MEBIBYTE)
    granted = memory.reserve(MEBIBYTE)
    assert (granted, memory.held) == (MEBIBYTE, MEBIBYTE)
    answer = memory.answer(granted, b"x" * 1_000)
    assert (answer, memory.held) == (b"x" * 1_000, 1_000)
    rest = memoryview(answer)[500:]
    del answer
    assert memory.held == 1_000
    del rest
    assert memory.held == 0


def test_an_answer_leaves_in_a_response() -> None:
    memory = AnswerMemory(16 * MEBIBYTE)
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    PartitionData(partition_index=0, high_watermark=1, records=records)
                    for records in (memory.answer(0, b"x" * 1_000), memory.answer(0, b""))
                ],
            )
        ]
    )
    sent = encode_bytes(response, 12)
    assert b"x" * 1_000 in sent
    del response
    assert memory.held == 0


def test_an_empty_answer_holds_nothing() -> None:
    memory = AnswerMemory(16 * MEBIBYTE)
    assert memory.answer(memory.reserve(MEBIBYTE), b"") == b""
    assert memory.held == 0


@given(st.lists(st.tuples(st.integers(1, 4 * MEBIBYTE), st.integers(0, 100)), max_size=300))
def test_many_slow_clients_get_less_each_and_never_nothing(asked: list[tuple[int, int]]) -> None:
    memory = AnswerMemory(8 * MEBIBYTE)
    granted = [memory.reserve(wanted) for wanted, _ in asked]
    assert all(
        got >= min(wanted, LEAST_BYTES) for got, (wanted, _) in zip(granted, asked, strict=True)
    )
    assert memory.held <= 8 * MEBIBYTE + len(asked) * LEAST_BYTES
    for got, (_, taken) in zip(granted, asked, strict=True):
        memory.answer(got, bytes(min(taken, got)))
    assert memory.held == 0
