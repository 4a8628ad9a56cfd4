"""The group coordinator, made when the first group needs it.

A broker that serves no groups need not load their code, which is a fifth of all code. If the
offsets topic exists from a previous run, its groups are loaded at startup. Otherwise the first
request about groups makes the coordinator, which subscribes to the partitions of the offsets topic
and gets at once a call for each of them that this broker leads already.
"""

from typing import TYPE_CHECKING

from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...replication.control.controller import Controller
from ...replication.leader.replica_manager import ReplicaManager
from ...replication.topic_names import GROUP_METADATA_TOPIC
from ...storage.manager.log_manager import LogManager
from ..config.config import BrokerConfig
from ..config.config_values import ConfigValues

if TYPE_CHECKING:
    from ...coordinator.group.group_coordinator import GroupCoordinator
    from ...coordinator.replicated_offsets_log import ReplicatedOffsetsLog


class Groups:
    """Holds the group coordinator, or what is needed to make it."""

    def __init__(
        self,
        config: BrokerConfig,
        environment: Environment,
        controller: Controller,
        replica_manager: ReplicaManager,
        log_manager: LogManager,
        supervisor: Supervisor,
    ) -> None:
        self._supervisor = supervisor
        self._config = config
        self._environment = environment
        self._controller = controller
        self._replica_manager = replica_manager
        self._log_manager = log_manager
        self._values = config.values
        self._coordinator: GroupCoordinator | None = None

    def start(self) -> None:
        """Load the groups of a previous run, if any."""
        if GROUP_METADATA_TOPIC in self._controller.image.topics_by_name:
            self._make()

    def on_config_change(self, values: ConfigValues) -> None:
        """Use the new values of the properties."""
        self._values = values
        if self._coordinator is not None:
            from .coordinator_configs import consumer_defaults

            self._coordinator.use_defaults(consumer_defaults(values))

    @property
    def running(self) -> "GroupCoordinator | None":
        """The coordinator; None until the first group needs it."""
        return self._coordinator

    @property
    def coordinator(self) -> "GroupCoordinator":
        """The coordinator, made at the first call. Call it inside the running loop."""
        return self._coordinator or self._make()

    def log_of(
        self, topic: str, timeout_ms: int, *, checks_min_isr: bool
    ) -> "ReplicatedOffsetsLog":
        """The log of a coordinator's topic; see `ReplicatedOffsetsLog`."""
        from ...coordinator.replicated_offsets_log import ReplicatedOffsetsLog

        return ReplicatedOffsetsLog(
            topic,
            timeout_ms,
            self._replica_manager,
            self._log_manager,
            checks_min_isr=checks_min_isr,
        )

    def _make(self) -> "GroupCoordinator":
        from ...coordinator.group.group_coordinator import GroupCoordinator
        from .coordinator_configs import consumer_defaults, group_config

        config = group_config(self._config)
        timeout_ms = config.offsets_commit_timeout_ms
        log = self.log_of(GROUP_METADATA_TOPIC, timeout_ms, checks_min_isr=False)
        coordinator = self._coordinator = GroupCoordinator(
            config, self._environment, log, self._supervisor
        )
        coordinator.use_defaults(consumer_defaults(self._values))
        coordinator.start()
        self._replica_manager.listen(GROUP_METADATA_TOPIC, coordinator)
        self._controller.subscribe(coordinator.publish)
        return coordinator

    def stop(self) -> None:
        """Complete the requests that wait in the coordinator, if there is one."""
        if self._coordinator is not None:
            self._coordinator.stop()
