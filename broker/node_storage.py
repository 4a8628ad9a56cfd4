"""The log directories of a process: locked, the metadata log opened, the other logs loaded.

A directory that is in use or belongs to another cluster is noticed before anything is read from it.
The logs of partitions are loaded once the cluster's image is there, which knows their topics.
"""

import logging
from concurrent.futures import ThreadPoolExecutor

from ..clients.kafka_uuid import Uuid, uuid_to_string
from ..clients.protocol.schema import Message
from ..clients.runtime.environment import Environment
from ..clients.text_table import counted
from ..replication.control.controller import Controller
from ..replication.housekeeping.clean_stop import FLUSH_THREADS, close_logs
from ..replication.housekeeping.log_compaction import LogCompaction
from ..replication.metadata.cluster_image import ClusterImage
from ..replication.metadata.metadata_log import MetadataLog, open_metadata_log
from ..replication.metadata.metadata_records import (
    SUPPORTED_FEATURES,
    FeatureLevelRecord,
    UserScramCredentialRecord,
)
from ..storage.config import LogConfig
from ..storage.directory.log_dir import LogDirError
from ..storage.files import Files
from ..storage.manager.log_manager import LogManager
from .config.config import BrokerConfig
from .config.config_values import ConfigValues
from .config.dynamic_config import DynamicConfig
from .config.settings import cleaner_config, metadata_log_config

_log = logging.getLogger(__name__)


class NodeStorage:
    """See the top of this file. Methods raise LogDirError, KafkaError, OSError."""

    def __init__(
        self, config: BrokerConfig, environment: Environment, files: Files, log_config: LogConfig
    ) -> None:
        self._config = config
        self.environment = environment
        self._files = files
        self._log_config = log_config
        self.log_manager = LogManager(
            files,
            config.log_dirs,
            log_config,
            config.values.integer("producer.id.expiration.ms"),
        )
        self.cluster_id = ""
        self.directory_ids: list[Uuid] = []
        self.previous_broker_epoch = -1
        """The broker epoch of the previous run, if it stopped cleanly; or -1."""
        self.is_loaded = False
        """Whether the logs of partitions are loaded, and must be closed."""
        self.metadata_log: MetadataLog

    @property
    def max_open(self) -> int:
        """How many files may be open."""
        return self._files.max_open

    def open(self) -> None:
        """Lock the directories and open the metadata log. A new cluster gets its id here."""
        environment, directories = self.environment, self.log_manager.directories
        cluster_id = (
            directories.formatted_cluster_id()
            if self._config.is_member
            else directories.stored_cluster_id()
        )
        meta = directories.open(
            cluster_id or uuid_to_string(environment.random_uuid()),
            self._config.node_id,
            environment.random_uuid,
        )
        self.cluster_id = meta[0].cluster_id
        self.directory_ids = [each.directory_id for each in meta]
        first = self.log_manager.log_dirs[0]
        self.previous_broker_epoch = self._previous_broker_epoch()
        directories.take_clean_shutdown_markers()
        first.check()
        self.metadata_log = open_metadata_log(
            first,
            self._config.node_id,
            environment.wall_clock_ms(),
            had_clean_shutdown=first.take_clean_shutdown_marker(),
            config=metadata_log_config(self._config.values),
        )
        self._report_losses()

    def _previous_broker_epoch(self) -> int:
        """The epoch in the clean shutdown markers of all directories; -1 if they differ."""
        epochs: set[int] = set()
        for log_dir in self.log_manager.directories.online:
            try:
                epochs.add(log_dir.clean_shutdown_broker_epoch())
            except OSError as error:
                log_dir.fail(error)
        return epochs.pop() if len(epochs) == 1 else -1

    def bootstrap(self) -> list[Message] | None:
        """The first records of a new cluster, as the directories were formatted; None without them.

        Features that no broker of ours could register with are left out, with a warning.
        """
        # Not imported by other starts than the first.
        from ..replication.metadata.bootstrap_snapshot import read_bootstrap

        directory = self._config.log_dirs[0]
        records = read_bootstrap(self._files, directory)
        if records is None:
            return None
        formatted = [record for record in records if isinstance(record, FeatureLevelRecord)]
        served = [record for record in formatted if record.name in SUPPORTED_FEATURES]
        for each in served:
            lowest, highest = SUPPORTED_FEATURES[each.name]
            if not lowest <= each.feature_level <= highest:
                raise LogDirError(
                    f"{directory} was formatted with {each.name}={each.feature_level}: this version"
                    f" of tierlog supports levels {lowest} to {highest}."
                )
        others = sorted(
            record.name for record in formatted if record.name not in SUPPORTED_FEATURES
        )
        if others and self.metadata_log.end_offset == 0:
            names = ", ".join(others)
            _log.warning(
                "%s was formatted with %s, which tierlog does not serve: a cluster that this node"
                " begins is without",
                directory,
                names,
            )
        users = (record for record in records if isinstance(record, UserScramCredentialRecord))
        return [*served, *users]

    def check(self, image: ClusterImage) -> None:
        """Raise LogDirError if a log belongs to a lost topic: it would be deleted as a stray."""
        directories, metadata_log = self.log_manager.directories, self.metadata_log
        for directory, topic_id in directories.logs_of_others(image.topics_by_name):
            if metadata_log.has_lost(topic_id):
                raise LogDirError(
                    f"{directory} holds the log of a topic that the metadata log in "
                    f"{metadata_log.directory} has lost: restore the metadata log from a backup, or"
                    f" move the logs of lost topics out of {directory.rpartition('/')[0]}."
                )

    def load(self, image: ClusterImage) -> None:
        """Load the logs of partitions, and recover them after a crash."""
        log_manager = self.log_manager
        began_ms = self.environment.wall_clock_ms()
        self.is_loaded = True
        log_manager.start(began_ms, self._topic_configs(image))
        self._report_losses()
        count = len(log_manager.all_logs())
        if count:
            recovered = log_manager.recovered
            more = f", {recovered} of them recovered" if recovered else ""
            logs = counted(count, "log")
            took_ms = self.environment.wall_clock_ms() - began_ms
            _log.info("Loaded %s in %d ms%s", logs, took_ms, more)

    def _topic_configs(self, image: ClusterImage) -> dict[str, LogConfig]:
        return {
            name: LogConfig.from_properties(overrides, self._log_config)
            for name in image.topics_by_name
            if (overrides := image.topic_config(name))
        }

    def forgotten_producer_ids(self, image: ClusterImage) -> list[int]:
        """Producer ids in logs that the metadata log would reissue: its last records are lost.

        If two producers had the same id, records of the second would look like duplicates.
        """
        used = self.log_manager.producer_ids_from(image.next_producer_id)
        if used:
            _log.warning(
                "Logs hold producer id %d, and %d more, which the metadata log has not allocated: "
                "these ids are skipped",
                used[0],
                len(used) - 1,
            )
        return used

    async def close(self, broker_epoch: int) -> None:
        """Close the logs, and mark the directories as cleanly closed.

        The markers record the epoch of this broker's registration.
        """
        now_ms = self.environment.wall_clock_ms()
        with ThreadPoolExecutor(FLUSH_THREADS, thread_name_prefix="flush-at-stop") as threads:
            await close_logs(self.log_manager, threads, now_ms, broker_epoch)

    def _report_losses(self) -> None:
        for log_dir in self.log_manager.log_dirs:
            while log_dir.losses:
                _log.warning("Data loss: %s", log_dir.losses.pop(0))


def configure_logs(
    dynamic_config: DynamicConfig,
    controller: Controller,
    log_manager: LogManager,
    compaction: LogCompaction,
) -> None:
    """Keep the logs and what looks after them at the settings of the configuration."""
    topic_defaults = dynamic_config.topic_defaults

    def configure(values: ConfigValues) -> None:
        log_manager.default_config = topic_defaults.log_config()
        controller.use_topic_defaults(log_manager.default_config)
        log_manager.producer_expiration_ms = values.integer("producer.id.expiration.ms")
        compaction.config = cleaner_config(values)

    dynamic_config.subscribe(configure)
