"""A key says by itself whose object it is."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.replication.topic_names import validate_topic_name
from tierlog.tests.tiering.segments import PARTITION, segment_metadata
from tierlog.tiering.remote_storage import RemoteStorageError
from tierlog.tiering.store.object_keys import (
    LOG_SUFFIX,
    is_partition_name,
    object_key,
    parse_object_key,
    partition_prefix,
)

UUIDS = st.binary(min_size=16, max_size=16).map(Uuid)
TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=30).filter(
    lambda name: name not in (".", "..")
)


def test_a_key_in_full() -> None:
    metadata = segment_metadata(1, offsets=(120, 199), epochs=((3, 120), (5, 160)))
    assert object_key(metadata, LOG_SUFFIX) == (
        "orders.eu-1-7--1RvcGljLWlkLTE2LWJ5_w/00000000000000000120-5-AAAAAAAAAAAAAAAAAAAAAQ.log"
    )


@given(UUIDS, UUIDS, TOPICS, st.integers(0, 2**31 - 1), st.integers(0, 2**40))
def test_a_key_gives_back_what_it_was_made_of(
    topic_id: Uuid, segment_id: Uuid, topic: str, partition: int, start: int
) -> None:
    owner = TopicIdPartition(topic_id, topic, partition)
    metadata = segment_metadata(
        int.from_bytes(segment_id, "big"),
        offsets=(start, start + 5),
        epochs=((2, start), (4, start + 1)),
        partition=owner,
    )
    parsed = parse_object_key("bucket/prefix/" + object_key(metadata, "txnindex"))
    assert parsed == (owner, start, 4, segment_id, "txnindex")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "log",
        "a/b.log",
        "orders-0-short/00000000000000000000-0-AAAAAAAAAAAAAAAAAAAAAQ.log",
        "orders-x-AAAAAAAAAAAAAAAAAAAAAQ/00000000000000000000-0-AAAAAAAAAAAAAAAAAAAAAQ.log",
        "orders-0-AAAAAAAAAAAAAAAAAAAAAQ/0-0-AAAAAAAAAAAAAAAAAAAAAQ.log",
        "orders-0-AAAAAAAAAAAAAAAAAAAAAQ/00000000000000000000-0-AAAAAAAAAAAAAAAAAAAAAR.log",
        "orders-0-AAAAAAAAAAAAAAAAAAAAAQ/00000000000000000000-00-AAAAAAAAAAAAAAAAAAAAAQ.log",
    ],
)
def test_what_is_not_exactly_a_key_of_ours_is_somebody_elses(key: str) -> None:
    assert parse_object_key(key) is None


@given(st.text(max_size=120))
def test_any_text_may_be_asked_about(text: str) -> None:
    parse_object_key(text)


def test_two_incarnations_of_a_topic_share_no_key() -> None:
    reborn = PARTITION._replace(topic_id=Uuid(b"another topic id"))
    keys = {
        object_key(segment_metadata(1, partition=owner), LOG_SUFFIX)
        for owner in (PARTITION, reborn)
    }
    assert len(keys) == 2


NAMES_OF_NO_TOPIC = [
    "..",
    ".",
    "",
    "../victim",
    "../../etc/x",
    "/etc",
    "a/b",
    "a\\b",
    "a\0b",
    "a\nb",
    "x" * 250,
    "ä",
]


@pytest.mark.parametrize("name", NAMES_OF_NO_TOPIC)
def test_a_name_that_no_topic_can_have_becomes_no_key(name: str) -> None:
    """It may come from an event or a manifest that anybody has written."""
    forged = PARTITION._replace(topic=name)
    with pytest.raises(RemoteStorageError, match="is not a valid partition"):
        partition_prefix(forged)
    with pytest.raises(RemoteStorageError) as refused:
        object_key(segment_metadata(1, partition=forged), LOG_SUFFIX)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


@given(st.text(max_size=20))
def test_keys_have_names_for_exactly_what_topics_may_be_called(name: str) -> None:
    try:
        validate_topic_name(name)
    except KafkaError:
        assert not is_partition_name(name, 0)
    else:
        assert is_partition_name(name, 0)


@pytest.mark.parametrize("number", [-1, -(2**31)])
def test_a_partition_has_no_negative_number(number: int) -> None:
    with pytest.raises(RemoteStorageError):
        partition_prefix(PARTITION._replace(partition=number))
