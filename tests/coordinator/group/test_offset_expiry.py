"""When committed offsets may be forgotten (KIP-211)."""

import struct
from collections.abc import Sequence

import pytest

from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.protocol.codec import encode_bytes
from tierlog.coordinator.group.offset_expiry import expiry_rule, subscribed_topics
from tierlog.coordinator.group_actions import GroupProtocol, MemberIdentity
from tierlog.coordinator.group_records import CommittedOffset
from tierlog.tests import wire

from ..group_driver import GroupDriver, join_request

RETENTION_MS = 1_000


def committed(at_ms: int, expires_ms: int | None = None) -> CommittedOffset:
    return CommittedOffset(42, -1, "", at_ms, expires_ms, ZERO_UUID)


def subscription(topics: Sequence[str], version: int = 0) -> bytes:
    message = wire.ConsumerProtocolSubscription(topics=list(topics))
    return struct.pack(">h", version) + encode_bytes(message, version)


def consumer_group(*topics: str, metadata: bytes | None = None) -> GroupDriver:
    """A stable consumer group whose one member subscribes to these topics."""
    driver = GroupDriver()
    chosen = subscription(topics) if metadata is None else metadata
    driver.send_join(join_request(name="anna"))
    request = join_request("anna")._replace(protocols=(GroupProtocol("range", chosen),))
    driver.send_join(request)
    driver.pass_time(3_000)
    driver.sync("anna", {})
    return driver


def is_expired(driver: GroupDriver, topic: str, offset: CommittedOffset) -> bool | None:
    rule = expiry_rule(driver.group, RETENTION_MS, driver.now_ms)
    return None if rule is None else rule(topic, offset)


def test_a_simple_groups_offsets_go_when_they_have_not_been_renewed() -> None:
    driver = GroupDriver()
    assert is_expired(driver, "t", committed(driver.now_ms - RETENTION_MS))
    assert not is_expired(driver, "t", committed(driver.now_ms - RETENTION_MS + 1))


def test_an_empty_groups_offsets_go_with_the_time_since_it_became_empty() -> None:
    driver = consumer_group("t")
    driver.leave("anna")
    old = committed(0)
    driver.now_ms += RETENTION_MS - 1
    assert not is_expired(driver, "t", old)
    driver.now_ms += 1
    assert is_expired(driver, "t", old)


def test_where_the_log_does_not_say_since_when_a_group_is_empty_each_commit_counts() -> None:
    """A group of an old Kafka, whose records have no such time."""
    driver = consumer_group("t")
    driver.leave("anna")
    restored = GroupDriver()
    restored.group.restore(driver.log[-1]._replace(state_timestamp_ms=-1))
    assert is_expired(restored, "t", committed(restored.now_ms - RETENTION_MS))
    assert not is_expired(restored, "t", committed(restored.now_ms - RETENTION_MS + 1))


def test_a_living_consumer_group_keeps_what_it_subscribes_to() -> None:
    driver = consumer_group("mine")
    assert not is_expired(driver, "mine", committed(0))
    assert is_expired(driver, "left", committed(0))


def test_while_a_group_rebalances_nothing_goes() -> None:
    driver = consumer_group("mine")
    driver.rejoin("anna")
    assert is_expired(driver, "left", committed(0)) is None


def test_a_group_of_another_kind_keeps_everything_while_it_lives() -> None:
    driver = GroupDriver()
    request = join_request(name="anna")._replace(protocol_type="connect")
    driver.send_join(request._replace(requires_known_member_id=False))
    driver.pass_time(3_000)
    driver.sync_static("", "")
    unsaid = driver.sync_request("anna")._replace(protocol_type="connect")
    driver.send_sync(unsaid)
    assert is_expired(driver, "t", committed(0)) is None


def test_an_offset_with_a_time_of_its_own_goes_when_that_has_come() -> None:
    driver = GroupDriver()
    now_ms = driver.now_ms
    assert is_expired(driver, "t", committed(now_ms, expires_ms=now_ms))
    assert not is_expired(driver, "t", committed(0, expires_ms=now_ms + 1))


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_topics_are_read_from_every_version_of_a_subscription(version: int) -> None:
    driver = consumer_group(metadata=subscription(["a", "bärt"], version))
    assert subscribed_topics(driver.group) == {"a", "bärt"}


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0\0",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\1\0\5abc",
        b"\0\0\0\0\0\1\xff\xff",
        b"\0\0\0\0\0\1\0\2\xff\xff",
    ],
)
def test_where_a_member_does_not_say_nothing_is_forgotten(metadata: bytes) -> None:
    driver = consumer_group(metadata=metadata)
    assert subscribed_topics(driver.group) is None
    assert is_expired(driver, "left", committed(0)) is None


def test_a_group_from_the_log_knows_since_when_it_is_empty() -> None:
    driver = consumer_group("t")
    driver.leave("anna")
    other = GroupDriver()
    other.group.restore(driver.log[-1])
    assert other.group.state_timestamp_ms == driver.group.state_timestamp_ms
    identity = MemberIdentity("anna", None)
    error, _ = other.group.heartbeat(identity, 2, other.now_ms)
    assert error
