"""Kafka's messages under one short name: `wire.FetchRequest`, for tests that speak many APIs.

A struct whose name stands in several messages is imported from its own.
"""

from tierlog.clients.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest as AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse as AddOffsetsToTxnResponse,
)
from tierlog.clients.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest as AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse as AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic as AddPartitionsToTxnTopic,
)
from tierlog.clients.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest as AllocateProducerIdsRequest,
    AllocateProducerIdsResponse as AllocateProducerIdsResponse,
)
from tierlog.clients.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest as AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse as AlterPartitionReassignmentsResponse,
    ReassignablePartition as ReassignablePartition,
    ReassignableTopic as ReassignableTopic,
)
from tierlog.clients.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir as AlterReplicaLogDir,
    AlterReplicaLogDirsRequest as AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse as AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic as AlterReplicaLogDirTopic,
)
from tierlog.clients.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest as AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse as AlterUserScramCredentialsResponse,
    ScramCredentialDeletion as ScramCredentialDeletion,
    ScramCredentialUpsertion as ScramCredentialUpsertion,
)
from tierlog.clients.protocol.messages.api_versions import (
    ApiVersion as ApiVersion,
    ApiVersionsRequest as ApiVersionsRequest,
    ApiVersionsResponse as ApiVersionsResponse,
    FinalizedFeatureKey as FinalizedFeatureKey,
    SupportedFeatureKey as SupportedFeatureKey,
)
from tierlog.clients.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest as BrokerHeartbeatRequest,
    BrokerHeartbeatResponse as BrokerHeartbeatResponse,
)
from tierlog.clients.protocol.messages.broker_registration import (
    BrokerRegistrationRequest as BrokerRegistrationRequest,
    BrokerRegistrationResponse as BrokerRegistrationResponse,
)
from tierlog.clients.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest as ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse as ConsumerGroupDescribeResponse,
)
from tierlog.clients.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest as ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse as ConsumerGroupHeartbeatResponse,
)
from tierlog.clients.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription as ConsumerProtocolSubscription,
)
from tierlog.clients.protocol.messages.controller_registration import (
    ControllerRegistrationRequest as ControllerRegistrationRequest,
    ControllerRegistrationResponse as ControllerRegistrationResponse,
)
from tierlog.clients.protocol.messages.create_acls import (
    AclCreation as AclCreation,
    CreateAclsRequest as CreateAclsRequest,
    CreateAclsResponse as CreateAclsResponse,
)
from tierlog.clients.protocol.messages.create_partitions import (
    CreatePartitionsAssignment as CreatePartitionsAssignment,
    CreatePartitionsRequest as CreatePartitionsRequest,
    CreatePartitionsTopic as CreatePartitionsTopic,
)
from tierlog.clients.protocol.messages.create_topics import (
    CreatableReplicaAssignment as CreatableReplicaAssignment,
    CreatableTopic as CreatableTopic,
    CreatableTopicConfig as CreatableTopicConfig,
    CreatableTopicResult as CreatableTopicResult,
    CreateTopicsRequest as CreateTopicsRequest,
    CreateTopicsResponse as CreateTopicsResponse,
)
from tierlog.clients.protocol.messages.delete_acls import (
    DeleteAclsFilter as DeleteAclsFilter,
    DeleteAclsRequest as DeleteAclsRequest,
    DeleteAclsResponse as DeleteAclsResponse,
)
from tierlog.clients.protocol.messages.delete_groups import (
    DeleteGroupsRequest as DeleteGroupsRequest,
    DeleteGroupsResponse as DeleteGroupsResponse,
)
from tierlog.clients.protocol.messages.delete_records import (
    DeleteRecordsPartition as DeleteRecordsPartition,
    DeleteRecordsRequest as DeleteRecordsRequest,
    DeleteRecordsResponse as DeleteRecordsResponse,
    DeleteRecordsTopic as DeleteRecordsTopic,
)
from tierlog.clients.protocol.messages.delete_topics import (
    DeletableTopicResult as DeletableTopicResult,
    DeleteTopicsRequest as DeleteTopicsRequest,
    DeleteTopicsResponse as DeleteTopicsResponse,
    DeleteTopicState as DeleteTopicState,
)
from tierlog.clients.protocol.messages.describe_acls import (
    DescribeAclsRequest as DescribeAclsRequest,
    DescribeAclsResponse as DescribeAclsResponse,
)
from tierlog.clients.protocol.messages.describe_cluster import (
    DescribeClusterBroker as DescribeClusterBroker,
    DescribeClusterRequest as DescribeClusterRequest,
    DescribeClusterResponse as DescribeClusterResponse,
)
from tierlog.clients.protocol.messages.describe_configs import (
    DescribeConfigsRequest as DescribeConfigsRequest,
    DescribeConfigsResource as DescribeConfigsResource,
    DescribeConfigsResponse as DescribeConfigsResponse,
)
from tierlog.clients.protocol.messages.describe_groups import (
    DescribeGroupsRequest as DescribeGroupsRequest,
    DescribeGroupsResponse as DescribeGroupsResponse,
)
from tierlog.clients.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse as DescribeTopicPartitionsResponse,
)
from tierlog.clients.protocol.messages.elect_leaders import (
    ElectLeadersRequest as ElectLeadersRequest,
    ElectLeadersResponse as ElectLeadersResponse,
)
from tierlog.clients.protocol.messages.end_txn import (
    EndTxnRequest as EndTxnRequest,
    EndTxnResponse as EndTxnResponse,
)
from tierlog.clients.protocol.messages.envelope import (
    EnvelopeRequest as EnvelopeRequest,
    EnvelopeResponse as EnvelopeResponse,
)
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition as FetchPartition,
    FetchRequest as FetchRequest,
    FetchResponse as FetchResponse,
    FetchTopic as FetchTopic,
)
from tierlog.clients.protocol.messages.find_coordinator import (
    FindCoordinatorRequest as FindCoordinatorRequest,
    FindCoordinatorResponse as FindCoordinatorResponse,
)
from tierlog.clients.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest as GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse as GetTelemetrySubscriptionsResponse,
)
from tierlog.clients.protocol.messages.heartbeat import (
    HeartbeatRequest as HeartbeatRequest,
    HeartbeatResponse as HeartbeatResponse,
)
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest as InitProducerIdRequest,
    InitProducerIdResponse as InitProducerIdResponse,
)
from tierlog.clients.protocol.messages.join_group import (
    JoinGroupRequest as JoinGroupRequest,
    JoinGroupRequestProtocol as JoinGroupRequestProtocol,
    JoinGroupResponse as JoinGroupResponse,
)
from tierlog.clients.protocol.messages.leave_group import (
    LeaveGroupRequest as LeaveGroupRequest,
    LeaveGroupResponse as LeaveGroupResponse,
    MemberIdentity as MemberIdentity,
)
from tierlog.clients.protocol.messages.list_groups import (
    ListGroupsRequest as ListGroupsRequest,
    ListGroupsResponse as ListGroupsResponse,
)
from tierlog.clients.protocol.messages.list_offsets import (
    ListOffsetsPartition as ListOffsetsPartition,
    ListOffsetsPartitionResponse as ListOffsetsPartitionResponse,
    ListOffsetsRequest as ListOffsetsRequest,
    ListOffsetsResponse as ListOffsetsResponse,
    ListOffsetsTopic as ListOffsetsTopic,
    ListOffsetsTopicResponse as ListOffsetsTopicResponse,
)
from tierlog.clients.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest as ListPartitionReassignmentsRequest,
)
from tierlog.clients.protocol.messages.list_transactions import (
    ListTransactionsResponse as ListTransactionsResponse,
)
from tierlog.clients.protocol.messages.metadata import (
    MetadataRequest as MetadataRequest,
    MetadataRequestTopic as MetadataRequestTopic,
    MetadataResponse as MetadataResponse,
    MetadataResponseBroker as MetadataResponseBroker,
    MetadataResponsePartition as MetadataResponsePartition,
    MetadataResponseTopic as MetadataResponseTopic,
)
from tierlog.clients.protocol.messages.offset_commit import (
    OffsetCommitRequest as OffsetCommitRequest,
    OffsetCommitRequestPartition as OffsetCommitRequestPartition,
    OffsetCommitRequestTopic as OffsetCommitRequestTopic,
    OffsetCommitResponse as OffsetCommitResponse,
)
from tierlog.clients.protocol.messages.offset_delete import (
    OffsetDeleteRequest as OffsetDeleteRequest,
    OffsetDeleteRequestPartition as OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic as OffsetDeleteRequestTopic,
    OffsetDeleteResponse as OffsetDeleteResponse,
)
from tierlog.clients.protocol.messages.offset_fetch import (
    OffsetFetchRequest as OffsetFetchRequest,
    OffsetFetchRequestGroup as OffsetFetchRequestGroup,
    OffsetFetchRequestTopic as OffsetFetchRequestTopic,
    OffsetFetchRequestTopics as OffsetFetchRequestTopics,
    OffsetFetchResponse as OffsetFetchResponse,
)
from tierlog.clients.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest as OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse as OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition as OffsetForLeaderPartition,
    OffsetForLeaderTopic as OffsetForLeaderTopic,
)
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData as PartitionProduceData,
    PartitionProduceResponse as PartitionProduceResponse,
    ProduceRequest as ProduceRequest,
    ProduceResponse as ProduceResponse,
    TopicProduceData as TopicProduceData,
    TopicProduceResponse as TopicProduceResponse,
)
from tierlog.clients.protocol.messages.push_telemetry import (
    PushTelemetryRequest as PushTelemetryRequest,
    PushTelemetryResponse as PushTelemetryResponse,
)
from tierlog.clients.protocol.messages.quorum_records import (
    KRaftVersionRecord as KRaftVersionRecord,
)
from tierlog.clients.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest as SaslAuthenticateRequest,
    SaslAuthenticateResponse as SaslAuthenticateResponse,
)
from tierlog.clients.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest as SaslHandshakeRequest,
    SaslHandshakeResponse as SaslHandshakeResponse,
)
from tierlog.clients.protocol.messages.sync_group import (
    SyncGroupRequest as SyncGroupRequest,
    SyncGroupRequestAssignment as SyncGroupRequestAssignment,
    SyncGroupResponse as SyncGroupResponse,
)
from tierlog.clients.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest as TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition as TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic as TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse as TxnOffsetCommitResponse,
)
from tierlog.clients.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest as UnregisterBrokerRequest,
    UnregisterBrokerResponse as UnregisterBrokerResponse,
)
from tierlog.clients.protocol.messages.update_features import (
    FeatureUpdateKey as FeatureUpdateKey,
    UpdateFeaturesRequest as UpdateFeaturesRequest,
    UpdateFeaturesResponse as UpdateFeaturesResponse,
)
from tierlog.clients.protocol.messages.write_txn_markers import (
    WritableTxnMarker as WritableTxnMarker,
    WritableTxnMarkerPartitionResult as WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult as WritableTxnMarkerResult,
    WritableTxnMarkerTopic as WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult as WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest as WriteTxnMarkersRequest,
    WriteTxnMarkersResponse as WriteTxnMarkersResponse,
)
