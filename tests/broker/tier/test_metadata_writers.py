"""Only brokers of the cluster write the tier's metadata, and no client can pass for one."""

from tierlog.broker.tier.metadata_writers import BrokersThatWrite, OnlyWriter
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.metadata.cluster_image import BrokerImage, ClusterImage

SECRETS = (Uuid(b"1" * 16), Uuid(b"2" * 16))


def registered(*incarnations: Uuid) -> ClusterImage:
    brokers = {
        number: BrokerImage(number, 1, each, {}, None, fenced=False)
        for number, each in enumerate(incarnations, 1)
    }
    return ClusterImage("a cluster", brokers=brokers)


def test_the_only_broker_accepts_its_own_producer() -> None:
    writer = OnlyWriter(SECRETS[0])
    assert writer.are_joined_by(writer.own_name)
    assert not writer.are_joined_by(OnlyWriter(SECRETS[1]).own_name)
    assert not writer.are_joined_by(None)


def test_a_broker_accepts_the_producers_of_all_that_are_registered() -> None:
    image = registered(*SECRETS)
    first, second = (BrokersThatWrite(node_id, lambda: image) for node_id in (1, 2))
    assert first.are_joined_by(second.own_name)
    assert second.are_joined_by(first.own_name)
    for stranger in (None, "", "__remote_log_metadata_client-", "app"):
        assert not first.are_joined_by(stranger)
    # The second broker has begun another life: its former producer writes no more.
    former, image = second.own_name, registered(SECRETS[0], Uuid(b"3" * 16))
    assert not first.are_joined_by(former)
    assert first.are_joined_by(BrokersThatWrite(2, lambda: image).own_name)
