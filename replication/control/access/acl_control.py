"""Creates and deletes access control entries (`AclControlManager`).

Creating an entry that exists already succeeds without a record. What a request writes is one
change: it takes effect as a whole, or, beyond `RECORDS_PER_OPERATION_MAX` records, not at all.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ....clients.errors import ErrorCode, KafkaError
from ....clients.kafka_uuid import Uuid
from ...authorizer.acl import Acl, AclFilter, check_filter, check_new, matcher
from ...authorizer.authorizer import PatternType
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
    by_name: dict[str, dict[Uuid, Acl]] = {}
    if any(_is_exact(acl_filter) for acl_filter in filters):
        # One walk for all filters with a name: there may be thousands of them.
        for entry_id, acl in image.acls.items():
            by_name.setdefault(acl.name, {})[entry_id] = acl
    for acl_filter in filters:
        try:
            check_filter(acl_filter)
        except KafkaError as error:
            results.append(Deletion((), error))
            continue
        matches = matcher(acl_filter)
        deleted: list[Acl] = []
        candidates = by_name.get(acl_filter.name or "", {}) if _is_exact(acl_filter) else image.acls
        for entry_id, acl in candidates.items():
            if matches(acl):
                # As in Kafka, even an entry that is being deleted already fails a request that is
                # full.
                if len(removed) == RECORDS_PER_OPERATION_MAX:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"Cannot remove more than {RECORDS_PER_OPERATION_MAX} acls in a single "
                        "delete operation.",
                    )
                removed.add(entry_id)
                deleted.append(acl)
        results.append(Deletion(sorted(deleted)))
    return Decision([RemoveAccessControlEntryRecord(id=each) for each in sorted(removed)], results)


def _is_exact(acl_filter: AclFilter) -> bool:
    """Whether a filter can only match entries with exactly its name."""
    return acl_filter.name is not None and acl_filter.pattern is not PatternType.MATCH
