"""Creates and deletes access control entries (`AclControlManager`).

An entry that exists already is created again by doing nothing. What a request writes is one change:
it takes effect as a whole, or, beyond `RECORDS_PER_OPERATION_MAX` records, not at all.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ....clients.errors import ErrorCode, KafkaError
from ....clients.kafka_uuid import Uuid
from ...authorizer.acl import Acl, AclFilter, check_filter, check_new, matcher, order
from ...metadata.access_records import acl_record
from ...metadata.cluster_image import ClusterImage
from ...metadata.metadata_records import RemoveAccessControlEntryRecord
from ..controller_config import RECORDS_PER_OPERATION_MAX, Decision

if TYPE_CHECKING:
    from ....clients.protocol.schema import Message


class Deletion(NamedTuple):
    """The entries that one filter has matched, or why it could not be applied."""

    deleted: Sequence[Acl]
    error: KafkaError | None = None


def create_acls(
    image: ClusterImage, acls: Sequence[Acl], random_uuid: Callable[[], Uuid]
) -> Decision[Sequence[KafkaError | None]]:
    """Decide on each entry separately; the answer is an error or None for each, in order.

    Raises KafkaError(POLICY_VIOLATION) for more entries than a request may write.
    """
    existing = set(image.acls.values())
    records: list[Message] = []
    results: list[KafkaError | None] = []
    for acl in acls:
        try:
            check_new(acl)
        except KafkaError as error:
            results.append(error)
            continue
        results.append(None)
        if acl not in existing:
            existing.add(acl)
            if len(records) == RECORDS_PER_OPERATION_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    "Unable to perform excessively large batch operation.",
                )
            records.append(acl_record(random_uuid(), acl))
    return Decision(records, results)


def delete_acls(image: ClusterImage, filters: Sequence[AclFilter]) -> Decision[Sequence[Deletion]]:
    """Delete what the filters match; the answer has the entries of each filter, in order.

    An entry that several filters match is in the answer of each. Raises
    KafkaError(INVALID_REQUEST) for more entries than a request may delete.
    """
    removed: set[Uuid] = set()
    results: list[Deletion] = []
    for each in filters:
        try:
            check_filter(each)
        except KafkaError as error:
            results.append(Deletion((), error))
            continue
        matches = matcher(each)
        deleted: list[Acl] = []
        for entry_id, acl in image.acls.items():
            if matches(acl):
                # As in Kafka, even an entry that is deleted already does not pass a full request.
                if len(removed) == RECORDS_PER_OPERATION_MAX:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"Cannot remove more than {RECORDS_PER_OPERATION_MAX} acls in a single "
                        "delete operation.",
                    )
                removed.add(entry_id)
                deleted.append(acl)
        results.append(Deletion(sorted(deleted, key=order)))
    return Decision([RemoveAccessControlEntryRecord(id=each) for each in sorted(removed)], results)
