"""Maps the broker's properties to the settings of its parts.

Each layer defines its own settings; only this file maps Kafka's properties to them.
"""

from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from ...replication.control.controller_config import ControllerConfig
from ...replication.housekeeping.housekeeping import HousekeepingConfig
from ...replication.leader.replica_manager import ReplicaManagerConfig
from ...replication.metadata.metadata_log_config import MetadataLogConfig
from ...storage.cleaner.cleaner_config import LARGEST_DEDUPE_BUFFER, CleanerConfig
from ...storage.config import LogConfig
from ...tiering.config import RemoteLogManagerConfig
from ...tiering.quota import UNLIMITED
from ..network.socket_listener import SocketOptions
from ..network.socket_server import ConnectionLimits
from .config import BrokerConfig
from .config_values import ConfigValues
from .listeners import Listeners
from .quorum_config import Role

if TYPE_CHECKING:
    from ...replication.control.cluster_control_config import ClusterControlConfig
    from ...replication.follower.replica_fetcher import ReplicaFetcherConfig
    from ...replication.raft.raft_options import RaftOptions
    from ...replication.raft.voter_set import VoterSet

_BACKLOG = 2048
"""The default backlog. Kafka's default of 50 makes a burst of clients wait for seconds."""

_SPREAD = 8
"""A follower waits up to this part of the fetch timeout longer, so that two do not tie."""


def connection_limits(values: ConfigValues) -> ConnectionLimits:
    """The limits on connections and requests.

    Raises KafkaError(INVALID_CONFIG) for an override that is not ``address:limit``, and if the
    largest request exceeds the memory for queued requests.
    """
    overrides: dict[str, int] = {}
    for entry in filter(None, values.text("max.connections.per.ip.overrides").split(",")):
        host, _, limit = entry.strip().rpartition(":")
        if not host or not limit.isdecimal():
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"max.connections.per.ip.overrides holds {entry}, which is not address:limit.",
            )
        overrides[host] = int(limit)
    largest, queued = "socket.request.max.bytes", "queued.max.request.bytes"
    if 0 < values.integer(queued) < values.integer(largest):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{queued} must be larger or equal to {largest}."
        )
    return ConnectionLimits(
        max_request_bytes=values.integer(largest),
        max_connections=values.integer("max.connections"),
        max_connections_per_ip=values.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides=overrides,
        max_idle_ms=values.integer("connections.max.idle.ms"),
        max_creation_rate=values.integer("max.connection.creation.rate"),
        max_unfinished_bytes=values.integer("tierlog.unfinished.requests.max.bytes"),
        max_queued_bytes=values.integer(queued),
        max_unsent_bytes=values.integer("tierlog.unsent.answers.max.bytes"),
    )


def socket_options(values: ConfigValues) -> SocketOptions:
    """The socket options. The system tunes buffer sizes that the user did not set."""
    stated = values.stated

    def optional(name: str) -> int | None:
        return values.integer(name) if name in stated else None

    backlog = optional("socket.listen.backlog.size")
    return SocketOptions(
        backlog=_BACKLOG if backlog is None else backlog,
        send_buffer_bytes=optional("socket.send.buffer.bytes"),
        receive_buffer_bytes=optional("socket.receive.buffer.bytes"),
    )


def _partitions_max(values: ConfigValues, max_open: int) -> int:
    """How many partitions clients may create. By default, 1/8 of `max_open` is for other files."""
    stated = values.integer("tierlog.max.partitions")
    return stated if stated >= 0 else max_open - max_open // 8


def controller_config(
    config: BrokerConfig, log_config: LogConfig, max_open: int
) -> ControllerConfig:
    """The controller's settings. `max_open` is the limit on open files."""
    values = config.values
    return ControllerConfig(
        node_id=config.node_id,
        num_partitions=values.integer("num.partitions"),
        default_replication_factor=values.integer("default.replication.factor"),
        delete_topic_enable=values.boolean("delete.topic.enable"),
        remote_storage_system_enabled=config.is_tiered,
        remote_storage_default=values.boolean("log.remote.storage.enable"),
        partitions_max=_partitions_max(values, max_open),
        log_config=log_config,
        tier_metadata_retention_ms=(
            config.remote_log_manager.metadata.topic_retention_ms
            if config.keeps_tier_metadata
            else None
        ),
        static_config=values.stated,
    )


def replica_manager_config(config: BrokerConfig) -> ReplicaManagerConfig:
    """The replica manager's settings."""
    values = config.values
    return ReplicaManagerConfig(
        node_id=config.node_id,
        replica_lag_time_max_ms=values.integer("replica.lag.time.max.ms"),
        remote_fetch_max_wait_ms=values.integer("remote.fetch.max.wait.ms"),
        remote_list_offsets_timeout_ms=values.integer("remote.list.offsets.request.timeout.ms"),
    )


def remote_log_manager_config(config: BrokerConfig, values: ConfigValues) -> RemoteLogManagerConfig:
    """The settings of tiering, from the current properties."""
    before = config.remote_log_manager
    return RemoteLogManagerConfig.from_properties(
        values.stated, before.broker_id, before.log_directory
    )


def housekeeping_config(values: ConfigValues) -> HousekeepingConfig:
    """The intervals of log housekeeping."""
    return HousekeepingConfig(
        initial_task_delay_ms=values.integer("log.initial.task.delay.ms"),
        retention_check_interval_ms=values.integer("log.retention.check.interval.ms"),
        high_watermark_checkpoint_interval_ms=values.integer(
            "replica.high.watermark.checkpoint.interval.ms"
        ),
        flush_offset_checkpoint_interval_ms=values.integer(
            "log.flush.offset.checkpoint.interval.ms"
        ),
        flush_start_offset_checkpoint_interval_ms=values.integer(
            "log.flush.start.offset.checkpoint.interval.ms"
        ),
        producer_id_expiration_check_interval_ms=values.integer(
            "producer.id.expiration.check.interval.ms"
        ),
        cleaner=cleaner_config(values),
    )


def metadata_log_config(values: ConfigValues) -> MetadataLogConfig:
    """The settings of the metadata log and its snapshots."""
    return MetadataLogConfig(
        segment_bytes=values.integer("metadata.log.segment.bytes"),
        segment_ms=values.integer("metadata.log.segment.ms"),
        max_record_bytes_between_snapshots=values.integer(
            "metadata.log.max.record.bytes.between.snapshots"
        ),
        max_snapshot_interval_ms=values.integer("metadata.log.max.snapshot.interval.ms"),
        retention_bytes=values.integer("metadata.max.retention.bytes"),
        retention_ms=values.integer("metadata.max.retention.ms"),
    )


def cleaner_config(values: ConfigValues) -> CleanerConfig:
    """The log cleaner's settings."""
    return CleanerConfig(
        enable=values.boolean("log.cleaner.enable"),
        backoff_ms=values.integer("log.cleaner.backoff.ms"),
        dedupe_buffer_size=min(
            values.integer("log.cleaner.dedupe.buffer.size"), LARGEST_DEDUPE_BUFFER
        ),
        io_buffer_load_factor=values.number("log.cleaner.io.buffer.load.factor"),
        io_buffer_size=values.integer("log.cleaner.io.buffer.size"),
        io_max_bytes_per_second=values.number("log.cleaner.io.max.bytes.per.second"),
    )


def move_rate(values: ConfigValues) -> int:
    """Bytes per second that may be copied between log directories; a dynamic property."""
    # With a rate of 0, no move would ever end.
    return max(_rate(values, "replica.alter.log.dirs.io.max.bytes.per.second"), 1)


def replication_rates(values: ConfigValues) -> tuple[int, int]:
    """Bytes per second of throttled replicas that this broker leads, and of those it follows."""
    leader, follower = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
    return _rate(values, leader), _rate(values, follower)


def _rate(values: ConfigValues, name: str) -> int:
    """A rate that only a dynamic configuration sets."""
    stated = values.stated.get(name, "")
    return int(stated) if stated.isdecimal() else UNLIMITED


def voter_set(config: BrokerConfig) -> "VoterSet":
    """The static voters, on the first controller listener; none if the voters are dynamic."""
    from ...replication.raft.voter_set import Address, Voter, VoterKey, VoterSet

    listener = config.quorum.controller_listeners[0]
    return VoterSet(
        Voter(VoterKey(voter.node_id), {listener: Address(voter.host, voter.port)})
        for voter in config.quorum.voters
    )


def raft_options(
    config: BrokerConfig,
    directory_id: Uuid,
    *,
    cluster_id: str = "",
    listeners: Listeners | None = None,
) -> "RaftOptions":
    """Who a member is in the quorum, and its timeouts.

    `directory_id` is that of the metadata log; static voters have none, their observers do.
    `listeners` are the bound ones, if the system has chosen a port.
    """
    from ...replication.raft.raft_options import RaftOptions
    from ...replication.raft.voter_set import Address

    quorum, values = config.quorum, config.values
    endpoints = (listeners or config.listeners).advertised_controllers
    name = "controller.quorum."
    is_controller = Role.CONTROLLER in quorum.roles
    return RaftOptions(
        quorum.node_id,
        directory_id=ZERO_UUID if quorum.voters and is_controller else directory_id,
        cluster_id=cluster_id,
        listener=quorum.controller_listeners[0],
        endpoints={endpoint.name: Address(endpoint.host, endpoint.port) for endpoint in endpoints},
        bootstrap_servers=tuple(Address(*server) for server in quorum.bootstrap_servers),
        can_be_voter=is_controller,
        election_timeout_ms=values.integer(f"{name}election.timeout.ms"),
        fetch_timeout_ms=values.integer(f"{name}fetch.timeout.ms"),
        fetch_timeout_spread_ms=values.integer(f"{name}fetch.timeout.ms") // _SPREAD,
        election_backoff_max_ms=values.integer(f"{name}election.backoff.max.ms"),
        request_timeout_ms=values.integer(f"{name}request.timeout.ms"),
        retry_backoff_ms=values.integer(f"{name}retry.backoff.ms"),
        fetch_snapshot_max_bytes=values.integer(f"{name}fetch.snapshot.max.bytes"),
    )


def cluster_control_config(values: ConfigValues) -> "ClusterControlConfig":
    """What the active controller of several brokers does by the clock."""
    from ...replication.control.cluster_control_config import ClusterControlConfig

    # A live broker reconnects for its next heartbeat: an eighth is for that.
    after_reset_ms = max(values.integer("broker.heartbeat.interval.ms"), 1) * 9 // 8
    has_hint = values.boolean("tierlog.broker.death.hint")
    return ClusterControlConfig(
        session_timeout_ms=values.integer("broker.session.timeout.ms"),
        leader_imbalance_check_interval_s=values.integer("leader.imbalance.check.interval.seconds"),
        auto_leader_rebalance=values.boolean("auto.leader.rebalance.enable"),
        max_idle_interval_ms=values.integer("metadata.max.idle.interval.ms"),
        session_after_reset_ms=after_reset_ms if has_hint else None,
        clean_restart=values.boolean("tierlog.broker.clean.restart"),
    )


def replica_fetcher_config(config: BrokerConfig) -> "ReplicaFetcherConfig":
    """How a broker fetches from the leaders of the partitions that it follows."""
    from ...replication.follower.leader_requests import FetchLimits
    from ...replication.follower.replica_fetcher import ReplicaFetcherConfig

    values = config.values
    return ReplicaFetcherConfig(
        node_id=config.node_id,
        fetchers_per_leader=values.integer("num.replica.fetchers"),
        limits=FetchLimits(
            max_wait_ms=values.integer("replica.fetch.wait.max.ms"),
            min_bytes=values.integer("replica.fetch.min.bytes"),
            max_bytes=values.integer("replica.fetch.response.max.bytes"),
            partition_max_bytes=values.integer("replica.fetch.max.bytes"),
        ),
        fetches_last_tiered=values.boolean("follower.fetch.last.tiered.offset.enable"),
        backoff_ms=values.integer("replica.fetch.backoff.ms"),
        socket_timeout_ms=values.integer("replica.socket.timeout.ms"),
    )
