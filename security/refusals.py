"""The response to a request that failed as a whole (`getErrorResponse`).

Each API has its own form: one error for all, one for each item, or both. An API without an entry
here has the usual form: one error for all, with a message if the response has a field for it.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from ..clients.errors import KafkaError
from ..clients.protocol.api import response_class
from ..clients.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ..clients.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
)
from ..clients.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ..clients.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ..clients.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ..clients.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ..clients.protocol.messages.create_partitions import CreatePartitionsRequest
from ..clients.protocol.messages.create_topics import CreateTopicsRequest
from ..clients.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ..clients.protocol.messages.delete_topics import DeleteTopicsRequest
from ..clients.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ..clients.protocol.messages.describe_quorum import DescribeQuorumResponse
from ..clients.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ..clients.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ..clients.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ..clients.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ..clients.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from ..clients.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ..clients.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ..clients.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..clients.protocol.schema import Message
from ..replication.control.access.scram_control import named_users
from ..replication.control.leadership.requested_elections import refused_election
from ..replication.control.topics.topic_control import (
    refused_creation,
    refused_deletion,
    refused_partitions,
)

M = TypeVar("M", bound=Message)
_Form = Callable[[Message, KafkaError], Message]


def has_form(request: Message) -> bool:
    """Whether `refusal_response` makes the response to this request."""
    return type(request) in _FORMS


def refusal_response(request: Message, error: KafkaError, version: int) -> Message:
    """The response for an error of the whole request."""
    form = _FORMS.get(type(request))
    response = _usual(request, error) if form is None else form(request, error)
    if version == 0 and isinstance(response, ElectLeadersResponse):
        # Version 0 has no top-level error.
        response.error_code = 0
    return response


CLUSTER_DENIED = "Cluster authorization failed."
"""Kafka's message of CLUSTER_AUTHORIZATION_FAILED."""


def _unless_usual(error: KafkaError) -> str | None:
    """The error's message; None for one that only repeats the code (`ApiError.fromThrowable`)."""
    return None if error.message in ("", CLUSTER_DENIED) else error.message


def _quotas(request: AlterClientQuotasRequest, error: KafkaError) -> Message:
    return AlterClientQuotasResponse(
        entries=[
            AlteredEntryData(
                error_code=error.code, error_message=error.message, entity=entry.entity
            )
            for entry in request.entries
        ]
    )


def _scram_credentials(request: AlterUserScramCredentialsRequest, error: KafkaError) -> Message:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name, error_code=error.code, error_message=error.message
            )
            for name in named_users(request)
        ]
    )


def _no_scram_credentials(
    request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> Message:
    # Kafka answers for each user, and leaves the name out.
    message = _unless_usual(error)
    result = DescribeUserScramCredentialsResult(error_code=error.code, error_message=message)
    return DescribeUserScramCredentialsResponse(
        error_code=error.code,
        error_message=message,
        results=[result] * len(request.users or ()),
    )


def _acl_creations(request: CreateAclsRequest, error: KafkaError) -> Message:
    result = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[result] * len(request.creations))


def _acl_deletions(request: DeleteAclsRequest, error: KafkaError) -> Message:
    result = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


def _moves(request: AlterReplicaLogDirsRequest, error: KafkaError) -> Message:
    topics: dict[str, dict[int, AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            partitions = topics.setdefault(topic.name, {})
            for partition in topic.partitions:
                partitions[partition] = AlterReplicaLogDirPartitionResult(
                    partition_index=partition, error_code=error.code
                )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=list(partitions.values()))
            for name, partitions in topics.items()
        ]
    )


def _markers(request: WriteTxnMarkersRequest, error: KafkaError) -> Message:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=partition, error_code=error.code
                            )
                            for partition in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _reassignments(request: AlterPartitionReassignmentsRequest, error: KafkaError) -> Message:
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message or None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=error.code,
                        error_message=error.message or None,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _no_reassignments(request: ListPartitionReassignmentsRequest, error: KafkaError) -> Message:
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message or None,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(partition_index=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


def _no_quotas(_: DescribeClientQuotasRequest, error: KafkaError) -> Message:
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=_unless_usual(error), entries=None
    )


def _usual(request: Message, error: KafkaError) -> Message:
    response = response_class(request.api_key)
    make = cast("Callable[..., Message]", response)
    if hasattr(response, "error_message"):
        return make(error_code=error.code, error_message=error.message)
    return make(error_code=error.code)


def _of_all(response: Callable[..., Message]) -> _Form:
    """The form of an API that has one error for all of a request."""
    return lambda _, error: response(error_code=error.code, error_message=error.message)


def _form(request_class: type[M], make: Callable[[M, KafkaError], Message]) -> _Form:
    assert request_class.api_key >= 0, "Only requests have such a form."
    return cast("_Form", make)


_FORMS: dict[type[Message], _Form] = {
    CreateTopicsRequest: _form(CreateTopicsRequest, refused_creation),
    DeleteTopicsRequest: _form(DeleteTopicsRequest, refused_deletion),
    CreatePartitionsRequest: _form(CreatePartitionsRequest, refused_partitions),
    ElectLeadersRequest: _form(ElectLeadersRequest, refused_election),
    AlterPartitionReassignmentsRequest: _form(AlterPartitionReassignmentsRequest, _reassignments),
    ListPartitionReassignmentsRequest: _form(ListPartitionReassignmentsRequest, _no_reassignments),
    AlterClientQuotasRequest: _form(AlterClientQuotasRequest, _quotas),
    AlterReplicaLogDirsRequest: _form(AlterReplicaLogDirsRequest, _moves),
    DescribeClientQuotasRequest: _form(DescribeClientQuotasRequest, _no_quotas),
    WriteTxnMarkersRequest: _form(WriteTxnMarkersRequest, _markers),
    DescribeUserScramCredentialsRequest: _form(
        DescribeUserScramCredentialsRequest, _no_scram_credentials
    ),
    AlterUserScramCredentialsRequest: _form(AlterUserScramCredentialsRequest, _scram_credentials),
    CreateAclsRequest: _form(CreateAclsRequest, _acl_creations),
    DeleteAclsRequest: _form(DeleteAclsRequest, _acl_deletions),
    UpdateFeaturesRequest: _of_all(UpdateFeaturesResponse),
    UnregisterBrokerRequest: _of_all(UnregisterBrokerResponse),
    DescribeQuorumRequest: _of_all(DescribeQuorumResponse),
    AddRaftVoterRequest: _of_all(AddRaftVoterResponse),
    RemoveRaftVoterRequest: _of_all(RemoveRaftVoterResponse),
}
