"""The controller, which makes every change to the cluster's state, one at a time (KIP-500).

    request -> decision (pure, on the newest image) -> metadata log -> commit -> image -> answer

This is the first of these arrows: each request of an administrator or of a broker becomes a
decision (`topic_control.py`, `alter_configs.py` and others, loaded when one is first needed), and
a refusal becomes its response. `controller_loop.py` makes the decisions and what follows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...clients.errors import KafkaError
from ...storage.config import LogConfig
from .brokers.broker_control import PRODUCER_ID_BLOCK_SIZE, allocate_producer_ids, unregister_broker
from .controller_config import Decision, PartitionCharge, no_charge
from .controller_loop import ControllerLoop

if TYPE_CHECKING:
    from ...clients.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from ...clients.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
    )
    from ...clients.protocol.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )
    from ...clients.protocol.messages.create_topics import (
        CreateTopicsRequest,
        CreateTopicsResponse,
    )
    from ...clients.protocol.messages.delete_topics import (
        DeleteTopicsRequest,
        DeleteTopicsResponse,
    )
    from ...clients.protocol.messages.elect_leaders import (
        ElectLeadersRequest,
        ElectLeadersResponse,
    )
    from ..authorizer.acl import Acl, AclFilter
    from .access.acl_control import Deletion
    from .access.scram_control import AlterationResults as ScramAlterationResults
    from .configs.alter_configs import AlterationResults, ConfigAlteration
    from .configs.client_quotas import QuotaAlteration
    from .feature_control import FeatureUpdate


class Controller(ControllerLoop):
    """Decides on changes to the cluster, commits them, and publishes them."""

    async def create_topics(
        self, request: "CreateTopicsRequest", charge: PartitionCharge = no_charge
    ) -> "CreateTopicsResponse":
        """Create topics; each topic has its own result."""
        from .topics.topic_control import TopicControl, create_topics, refused_creation

        environment = self._environment
        control = TopicControl(self._config, environment.random_uuid, environment.random, charge)
        try:
            return await self._write(
                lambda image: create_topics(control, image, request), request.timeout_ms
            )
        except KafkaError as error:
            return refused_creation(request, error)

    async def delete_topics(
        self, request: "DeleteTopicsRequest", charge: PartitionCharge = no_charge
    ) -> "DeleteTopicsResponse":
        """Delete topics; each topic has its own result."""
        from .topics.topic_control import delete_topics, refused_deletion

        try:
            return await self._write(
                lambda image: delete_topics(self._config, image, request, charge),
                request.timeout_ms,
            )
        except KafkaError as error:
            return refused_deletion(request, error)

    async def create_partitions(
        self, request: "CreatePartitionsRequest", charge: PartitionCharge = no_charge
    ) -> "CreatePartitionsResponse":
        """Add partitions to topics; each topic has its own result."""
        from .topics.topic_control import create_partitions, refused_partitions

        random = self._environment.random
        try:
            return await self._write(
                lambda image: create_partitions(self._config, image, request, random, charge),
                request.timeout_ms,
            )
        except KafkaError as error:
            return refused_partitions(request, error)

    async def alter_configs(
        self, alterations: "Sequence[ConfigAlteration]", validate_only: bool
    ) -> "AlterationResults":
        """Change configurations; return an error or None for each alteration, in order."""
        from .configs.alter_configs import alter_configs

        try:
            return await self._write(
                lambda image: alter_configs(self._config, image, alterations, validate_only)
            )
        except KafkaError as error:
            return [error for _ in alterations]

    async def alter_client_quotas(
        self, alterations: "Sequence[QuotaAlteration]", validate_only: bool
    ) -> "Sequence[KafkaError | None]":
        """Set and remove quotas; return an error or None for each alteration, in order."""
        from .configs.client_quotas import alter_client_quotas

        try:
            return await self._write(
                lambda image: alter_client_quotas(image, alterations, validate_only)
            )
        except KafkaError as error:
            return [error for _ in alterations]

    async def create_acls(self, acls: "Sequence[Acl]") -> "Sequence[KafkaError | None]":
        """Create access control entries; return an error or None for each, in order."""
        from .access.acl_control import create_acls

        new_id = self._environment.random_uuid
        try:
            return await self._write(lambda image: create_acls(image, acls, new_id))
        except KafkaError as error:
            return [error for _ in acls]

    async def delete_acls(self, filters: "Sequence[AclFilter]") -> "Sequence[Deletion]":
        """Delete access control entries; return what each filter has matched, in order."""
        from .access.acl_control import Deletion, delete_acls

        try:
            return await self._write(lambda image: delete_acls(image, filters))
        except KafkaError as error:
            return [Deletion((), error) for _ in filters]

    async def alter_scram_credentials(
        self, request: "AlterUserScramCredentialsRequest"
    ) -> "ScramAlterationResults":
        """Set and remove users' SCRAM credentials; return an error or None for each user."""
        from .access.scram_control import alter_scram_credentials, named_users

        new_id = self._environment.random_uuid
        try:
            return await self._write(lambda image: alter_scram_credentials(image, request, new_id))
        except KafkaError as error:
            return [(name, error) for name in named_users(request)]

    async def update_features(
        self,
        supported: Mapping[str, tuple[int, int]],
        updates: "Sequence[FeatureUpdate]",
        validate_only: bool,
        kraft_version: int | None = None,
    ) -> None:
        """Finalise new feature levels, all or none.

        `kraft_version` is the level of the quorum, if there is one.

        Raises KafkaError: INVALID_UPDATE_VERSION, NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
        from .feature_control import update_features

        await self._write(
            lambda image: update_features(
                self._config, image, supported, updates, validate_only, kraft_version
            )
        )

    def use_topic_defaults(self, log_config: LogConfig) -> None:
        """Set the defaults used to check topic configurations."""
        self._config = replace(self._config, log_config=log_config)

    async def elect_leaders(self, request: "ElectLeadersRequest") -> "ElectLeadersResponse":
        """Hold elections; each partition has its own result."""
        from .leadership.requested_elections import elect_leaders, refused_election

        try:
            return await self._write(
                lambda image: elect_leaders(image, request, self._config.log_config),
                request.timeout_ms,
            )
        except KafkaError as error:
            return refused_election(request, error)

    async def alter_partition_reassignments(
        self, request: "AlterPartitionReassignmentsRequest"
    ) -> "AlterPartitionReassignmentsResponse":
        """Begin or cancel reassignments; each partition has its own result."""
        from .leadership.reassignment import alter_reassignments, refused_reassignments

        try:
            return await self._write(
                lambda image: alter_reassignments(image, request, self._config.log_config),
                request.timeout_ms,
            )
        except KafkaError as error:
            return refused_reassignments(error)

    async def unregister_broker(self, broker_id: int) -> None:
        """Unregister a broker.

        Raises KafkaError: BROKER_ID_NOT_REGISTERED, INVALID_REQUEST, NOT_CONTROLLER,
        REQUEST_TIMED_OUT.
        """
        own_id, defaults = self._config.node_id, self._config.log_config
        await self._write(lambda image: unregister_broker(image, own_id, broker_id, defaults))

    async def alter_topic_config(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set overrides of a topic, or remove them with None.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, NOT_CONTROLLER,
        REQUEST_TIMED_OUT.
        """
        from .configs.config_control import alter_topic_config

        await self._write(
            lambda image: Decision(alter_topic_config(self._config, image, topic, changes), None)
        )

    async def allocate_producer_ids(
        self, count: int = PRODUCER_ID_BLOCK_SIZE, used: Sequence[int] = ()
    ) -> int:
        """The first of a block of `count` unique producer ids.

        `used` are ids in use that are missing from the metadata log. Raises KafkaError:
        BROKER_ID_NOT_REGISTERED, NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
        return await self._write(
            lambda image: allocate_producer_ids(image, self._config.node_id, count, used)
        )
