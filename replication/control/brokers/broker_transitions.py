"""The records of each step in a broker's life: unfenced, stopping, fenced, gone (KIP-631). Pure.

    UNFENCED              unfence, then elections of partitions without a leader
    CONTROLLED_SHUTDOWN   mark as stopping, then leaderships and ISR memberships away
    FENCED, SHUTDOWN_NOW  leaderships and ISR memberships away, then fence

A broker with more partitions than `RECORDS_PER_PART` takes its step in several changes: to decide
on ten thousand partitions takes half a second, in which the event loop would answer nobody.
Each is decided on the image that the last one results in, so a leader that has brought the broker
back into an ISR in between is no problem. The record of the registration comes in the first change
of a broker that arrives and in the last of one that leaves: nobody is elected who cannot lead, and
nobody is fenced who still leads.

See `ReplicationControlManager.handleBrokerFenced`, `handleBrokerUnfenced`,
`handleBrokerInControlledShutdown` and `handleBrokerShutdown`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....clients.kafka_uuid import Uuid
from ....storage.config import LogConfig
from ...metadata.cluster_image import BrokerImage, ClusterImage
from ...metadata.metadata_records import BrokerRegistrationChangeRecord
from ..controller_config import RECORDS_PER_PART
from ..leadership.leader_and_isr import ELR_FEATURE, LostBroker, with_broker, without_broker
from .broker_states import BrokerState

if TYPE_CHECKING:
    from ....clients.protocol.schema import Message

_SET, _CLEARED = 1, -1
FOR_A_PART = RECORDS_PER_PART + 1
"""One more than fit into a change: then `first_part` knows that these are not all."""


def step_records(
    image: ClusterImage, broker: BrokerImage, target: BrokerState, defaults: LogConfig
) -> "list[Message]":
    """The records that are still missing before the broker is in its target state."""
    match target:
        case BrokerState.UNFENCED:
            change = [] if not broker.fenced else [_change(broker, fenced=_CLEARED)]
            return [*change, *with_broker(image, broker.broker_id, defaults, FOR_A_PART)]
        case BrokerState.CONTROLLED_SHUTDOWN:
            is_marked = broker.in_controlled_shutdown
            change = [] if is_marked else [_change(broker, in_controlled_shutdown=_SET)]
            lost = LostBroker(broker.broker_id)
            return [*change, *without_broker(image, lost, defaults, FOR_A_PART)]
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
            return fence_records(image, broker, defaults)


def fence_records(image: ClusterImage, broker: BrokerImage, defaults: LogConfig) -> "list[Message]":
    """The records that fence a broker.

    One that is fenced and shuts down gets another record of it, as in Kafka.
    """
    lost = LostBroker(broker.broker_id)
    changes = without_broker(image, lost, defaults, FOR_A_PART)
    return [*changes, _change(broker, fenced=_SET)]


def restart_records(
    image: ClusterImage, broker_id: int, was_clean: bool, defaults: LogConfig
) -> "list[Message]":
    """The records that end a broker's previous incarnation.

    Without eligible leader replicas, an unclean shutdown is as good as a clean one: the last
    member of an ISR stays in it (`handleBrokerShutdown`).
    """
    has_elr = image.features.get(ELR_FEATURE, 0) > 0
    lost = LostBroker(broker_id, is_unclean=has_elr and not was_clean)
    return [*without_broker(image, lost, defaults, FOR_A_PART)]


def removal_records(image: ClusterImage, broker_id: int, defaults: LogConfig) -> "list[Message]":
    """The records that end the part of an unregistered broker in all partitions.

    It may be an eligible leader until it registers again, and is then taken for one that stopped
    uncleanly (`handleBrokerUnregistered`).
    """
    return [*without_broker(image, LostBroker(broker_id), defaults, FOR_A_PART)]


def cordon_record(broker: BrokerImage, cordoned: Sequence[Uuid] | None) -> "list[Message]":
    """The record of a broker's directories that get no new replicas, if they have changed."""
    if cordoned is None or set(cordoned) == set(broker.cordoned_directories or ()):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
        )
    ]


def first_part(records: "Sequence[Message]") -> "tuple[Sequence[Message], bool]":
    """As many records as fit into one change, and whether these are all."""
    return records[:RECORDS_PER_PART], len(records) <= RECORDS_PER_PART


def leads_any(image: ClusterImage, broker_id: int) -> bool:
    """Whether the broker leads a partition."""
    return any(
        partition.leader == broker_id
        for topic in image.topics_by_name.values()
        for partition in topic.partitions.values()
    )


def _change(
    broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
