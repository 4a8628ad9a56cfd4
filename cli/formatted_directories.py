"""Writes and shows the directories of a cluster's node (Kafka's `Formatter` and `StorageTool`)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..clients.errors import ErrorCode, KafkaError
from ..clients.kafka_uuid import Uuid, uuid_to_string
from ..clients.runtime.environment import Environment
from ..replication.control.access.scram_control import secret_record
from ..replication.control.brokers.broker_control import bootstrap_records
from ..replication.metadata.bootstrap_snapshot import (
    BOOTSTRAP_FILE,
    FIRST_SNAPSHOT_FILE,
    bootstrap_snapshot,
    first_snapshot,
)
from ..replication.metadata.metadata_log import METADATA_PARTITION
from ..replication.metadata.metadata_records import (
    METADATA_VERSION,
    ConfigRecord,
    FeatureLevelRecord,
    UserScramCredentialRecord,
)
from ..replication.raft.raft_options import SUPPORTED_KRAFT_VERSIONS
from ..replication.raft.voter_set import Address, Voter, VoterKey, VoterSet
from ..storage.directory.log_dir import LogDir, LogDirError, MetaProperties
from ..storage.durable_directory import make_durably
from ..storage.files import Files
from .initial_controllers import InitialController

METADATA_VERSION_NAME = "4.3-IV0"
"""Kafka's name of the level in which records are written."""


class FormatPlan(NamedTuple):
    """What is to be written into which directories."""

    cluster_id: str
    node_id: int
    log_dirs: Sequence[str]
    """The first has the metadata log."""
    listener: str
    """The controller listener through which voters reach each other."""
    voters: tuple[InitialController, ...]
    """The first dynamic voters; empty for static ones, and for a node that joins later."""
    ignore_formatted: bool = False
    levels: Mapping[str, int] = MappingProxyType({})
    """Features of which a new cluster gets another level than the highest."""
    users: tuple[UserScramCredentialRecord, ...] = ()
    """The first users with SCRAM."""

    @property
    def directory_id(self) -> Uuid | None:
        """The id that the metadata directory must have, if this node is one of the voters."""
        own = (voter.directory_id for voter in self.voters if voter.node_id == self.node_id)
        return next(own, None)


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def format_directories(plan: FormatPlan, files: Files, environment: Environment) -> None:
    """Write what the plan says. `meta.properties` comes last: only it makes a directory formatted.

    Raises OSError, LogDirError, and KafkaError(INVALID_CONFIG) if a directory is formatted.
    """
    formatted = _read_directories(plan, files)
    unformatted = [path for path, meta in formatted.items() if meta is None]
    if not formatted:
        raise _refusal("No available log directories to format.")
    if len(unformatted) < len(formatted) and not plan.ignore_formatted:
        first = next(path for path, meta in formatted.items() if meta is not None)
        raise _refusal(
            f"Log directory {first} is already formatted. Use --ignore-formatted to ignore this"
            " directory and format the others."
        )
    if not unformatted:
        print("All of the log directories are already formatted.")
        return
    print(f"Bootstrap metadata: {_bootstrap_text(plan)}")
    for path in unformatted:
        _format(plan, path, files, environment)


def _read_directories(plan: FormatPlan, files: Files) -> dict[str, MetaProperties | None]:
    """What each usable directory says of itself; None if it is not formatted."""
    formatted: dict[str, MetaProperties | None] = {}
    for path in plan.log_dirs:
        try:
            if files.exists(path) and not files.is_directory(path):
                raise NotADirectoryError
            meta = LogDir(files, path).read_meta_properties()
        except OSError:
            print(f"I/O error trying to read log directory {path}. Ignoring...")
            continue
        formatted[path] = meta
        if meta is not None and meta.cluster_id != plan.cluster_id:
            raise _refusal(
                f"Invalid cluster.id in: {path}/meta.properties. Expected {plan.cluster_id}, but"
                f" read {meta.cluster_id}"
            )
        if meta is not None and meta.node_id != plan.node_id:
            raise _refusal(
                f"Stored node id {meta.node_id} doesn't match previous node id {plan.node_id} in"
                f" {path}/meta.properties. If you moved your data, make sure your configured node"
                " id matches. If you intend to create a new node, you should remove all data in"
                " your data directories."
            )
    return formatted


def _secret(plan: FormatPlan, environment: Environment) -> list[ConfigRecord]:
    """The cluster's secret for names that are no users, if it has users."""
    if not plan.users:
        return []
    return [secret_record(environment.random_uuid() + environment.random_uuid())]


def _format(plan: FormatPlan, path: str, files: Files, environment: Environment) -> None:
    has_metadata = path == plan.log_dirs[0]
    kind = "data directory"
    if has_metadata:
        kind = "metadata directory"
        if plan.voters:
            voter = "" if plan.directory_id is None else "voter "
            kind = f"dynamic metadata {voter}directory"
    print(f"Formatting {kind} {path} with metadata.version {METADATA_VERSION_NAME}.")
    write_formatted(plan, path, files, environment)


def write_formatted(plan: FormatPlan, path: str, files: Files, environment: Environment) -> None:
    """Make one directory, formatted. Raises OSError."""
    has_metadata = path == plan.log_dirs[0]
    now_ms = environment.wall_clock_ms()
    make_durably(files, path)
    files.atomic_replace(
        f"{path}/{BOOTSTRAP_FILE}",
        bootstrap_snapshot(
            [*bootstrap_records(plan.levels), *plan.users, *_secret(plan, environment)], now_ms
        ),
    )
    if has_metadata and plan.voters:
        directory = f"{path}/{METADATA_PARTITION}"
        make_durably(files, directory)
        files.atomic_replace(
            f"{directory}/{FIRST_SNAPSHOT_FILE}", first_snapshot(_voter_set(plan), now_ms)
        )
    own_id = plan.directory_id if has_metadata else None
    meta = MetaProperties(plan.cluster_id, plan.node_id, own_id or environment.random_uuid())
    LogDir(files, path).write_meta_properties(meta)


def _voter_set(plan: FormatPlan) -> VoterSet:
    return VoterSet(
        Voter(
            VoterKey(voter.node_id, voter.directory_id),
            {plan.listener: Address(voter.host, voter.port)},
            SUPPORTED_KRAFT_VERSIONS,
        )
        for voter in plan.voters
    )


def _bootstrap_text(plan: FormatPlan) -> str:
    """The first records, as Kafka prints them."""
    records = ", ".join(
        f"ApiMessageAndVersion(FeatureLevelRecord(name='{record.name}',"
        f" featureLevel={record.feature_level}) at version 0)"
        for record in bootstrap_records(plan.levels)
        if isinstance(record, FeatureLevelRecord)
    )
    return (
        f"BootstrapMetadata(records=[{records}], metadataVersionLevel={METADATA_VERSION},"
        " source=format command)"
    )


def show_info(files: Files, log_dirs: Sequence[str]) -> int:
    """Print which directories are there, what they belong to, and what is wrong with them."""
    present: list[str] = []
    problems: list[str] = []
    seen: dict[str, MetaProperties] = {}
    for path in sorted(log_dirs):
        if not files.exists(path):
            problems.append(f"{path} does not exist")
            continue
        if not files.is_directory(path):
            problems.append(f"{path} is not a directory")
            continue
        present.append(path)
        try:
            meta = LogDir(files, path).read_meta_properties()
        except LogDirError as error:
            problems.append(str(error))
            continue
        if meta is None:
            problems.append(f"{path} is not formatted.")
        else:
            seen[path] = meta
    _print_section("log director", "y", "ies", present)
    if seen:
        print(f"Found metadata: {_meta_text(next(iter(seen.values())))}\n")
    problems += _conflicts(seen)
    _print_section("problem", "", "s", problems)
    return 1 if problems else 0


def _print_section(word: str, one: str, many: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"Found {word}{one if len(lines) == 1 else many}:")
        print("".join(f"  {line}\n" for line in lines))


def _meta_text(meta: MetaProperties) -> str:
    return (
        f"{{cluster.id={meta.cluster_id}, directory.id={uuid_to_string(meta.directory_id)},"
        f" node.id={meta.node_id}, version=1}}"
    )


def _conflicts(seen: Mapping[str, MetaProperties]) -> list[str]:
    owners = {(meta.cluster_id, meta.node_id) for meta in seen.values()}
    if len(owners) < 2:
        return []
    texts = ", ".join(f"{path}: {_meta_text(meta)}" for path, meta in seen.items())
    return [f"Two directories belong to different nodes or clusters: {texts}"]
