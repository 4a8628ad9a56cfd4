"""`tierlog format`, `tierlog info` and `tierlog random-uuid`: what Kafka's `kafka-storage` does.

A member of a cluster of several processes starts only from formatted directories: each has the id
of the cluster, of the node and of the directory in `meta.properties`, and the first features in
`bootstrap.checkpoint`. With dynamic voters the metadata log begins with the first voters (KIP-853).
A single-node cluster needs none of this.

Arguments, output and refusals are Kafka's. Exit codes: 0 formatted, 1 refused.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence

from ..broker.config.config import BrokerConfig
from ..broker.config.quorum_config import Role
from ..broker.config.remedies import storage_message
from ..clients.errors import ErrorCode, KafkaError
from ..clients.kafka_uuid import uuid_to_string
from ..clients.runtime.environment import Environment, SystemEnvironment
from ..replication.metadata.metadata_records import (
    ELR_FEATURE,
    METADATA_VERSION_FEATURE,
    SUPPORTED_FEATURES,
)
from ..replication.raft.raft_options import KRAFT_VERSION_FEATURE, SUPPORTED_KRAFT_VERSIONS
from ..storage.directory.log_dir import LogDirError
from ..storage.files import OsFiles
from .configuration import stated_configuration
from .formatted_directories import (
    METADATA_VERSION_NAME,
    FormatPlan,
    format_directories,
    show_info,
)
from .initial_controllers import InitialController, parse_initial_controllers
from .scram_users import scram_user

_DYNAMIC_FLAGS = "--standalone, --initial-controllers, or --no-initial-controllers"


def add_storage_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command to its parser."""
    if command == "random-uuid":
        return
    parser.add_argument("--config", "-c", metavar="FILE", required=True, help="a properties file")
    parser.add_argument(
        "--override",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a property that overrides the file; can be repeated",
    )
    if command == "info":
        return
    parser.add_argument("--cluster-id", "-t", required=True, help="the id of the cluster")
    parser.add_argument(
        "--ignore-formatted", "-g", action="store_true", help="skip formatted directories"
    )
    parser.add_argument("--release-version", "-r", help=f"only {METADATA_VERSION_NAME}")
    parser.add_argument(
        "--feature",
        "-f",
        metavar="NAME=LEVEL",
        action="append",
        default=[],
        help="the level of a feature; can be repeated",
    )
    parser.add_argument(
        "--add-scram",
        "-S",
        metavar="MECHANISM=[name=USER,password=TEXT]",
        action="append",
        default=[],
        help="a user with SCRAM of the new cluster, such as"
        " 'SCRAM-SHA-512=[name=alice,password=secret]'; can be repeated",
    )
    voters = parser.add_mutually_exclusive_group()
    voters.add_argument(
        "--standalone", "-s", action="store_true", help="this controller is the only voter"
    )
    voters.add_argument(
        "--no-initial-controllers",
        "-N",
        action="store_true",
        help="this node joins a cluster that has voters",
    )
    voters.add_argument(
        "--initial-controllers",
        "-I",
        metavar="ID@HOST:PORT:DIRECTORY,...",
        help="the first voters, the same for every node",
    )


def run_storage_command(parsed: argparse.Namespace) -> int:
    """Run one of the commands; returns the exit code."""
    environment = SystemEnvironment()
    if parsed.command == "random-uuid":
        print(uuid_to_string(environment.random_uuid()))
        return 0
    try:
        config = stated_configuration(parsed.config, parsed.override)
        if parsed.command == "info":
            return show_info(OsFiles(), config.log_dirs)
        format_directories(_plan(config, parsed, environment), OsFiles(), environment)
    except (KafkaError, LogDirError) as error:
        message = error.message if isinstance(error, KafkaError) else str(error)
        print(message, file=sys.stderr)
        return 1
    except OSError as error:
        print(storage_message(error), file=sys.stderr)
        return 1
    return 0


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _plan(config: BrokerConfig, parsed: argparse.Namespace, environment: Environment) -> FormatPlan:
    """Check the arguments against the properties. Raises KafkaError(INVALID_CONFIG)."""
    cluster_id: str = parsed.cluster_id
    if not (cluster_id.isascii() and cluster_id.isprintable() and cluster_id.strip()):
        raise _refusal("The cluster id is not printable text: `tierlog random-uuid` prints one.")
    quorum = config.quorum
    is_standalone: bool = parsed.standalone
    has_flag = is_standalone or parsed.no_initial_controllers or parsed.initial_controllers
    levels = check_features(
        parsed.feature, parsed.release_version, bool(has_flag and not quorum.voters)
    )
    voters = _initial_voters(config, parsed, environment)
    if quorum.voters and voters:
        raise _refusal(
            "You cannot specify controller.quorum.voters and format the node with"
            " --initial-controllers or --standalone. If you want to use dynamic quorum, please"
            " remove controller.quorum.voters and specify controller.quorum.bootstrap.servers"
            " instead."
        )
    needs_flag = Role.CONTROLLER in quorum.roles and not quorum.voters
    if needs_flag and not has_flag and (config.is_member or quorum.bootstrap_servers):
        raise _refusal(
            "Because controller.quorum.voters is not set on this controller, you must specify one"
            " of the following: --standalone, --initial-controllers, or --no-initial-controllers."
        )
    listener = next(iter(quorum.controller_listeners), "")
    return FormatPlan(
        cluster_id,
        config.node_id,
        config.log_dirs,
        listener,
        voters,
        parsed.ignore_formatted,
        levels,
        tuple(scram_user(each, environment) for each in parsed.add_scram),
    )


def _initial_voters(
    config: BrokerConfig, parsed: argparse.Namespace, environment: Environment
) -> tuple[InitialController, ...]:
    if parsed.initial_controllers is not None:
        return parse_initial_controllers(parsed.initial_controllers)
    if not parsed.standalone:
        return ()
    if Role.CONTROLLER not in config.quorum.roles:
        raise _refusal("You can only use --standalone on a controller.")
    first = next(iter(config.quorum.controller_listeners), "")
    endpoint = next((e for e in config.listeners.advertised_controllers if e.name == first), None)
    if endpoint is None:
        raise _refusal("A voter needs a listener that controller.listener.names names.")
    own = (config.node_id, endpoint.host, endpoint.port, environment.random_uuid())
    return (InitialController(*own),)


def check_features(
    stated: Sequence[str], release: str | None, is_dynamic: bool
) -> Mapping[str, int]:
    """The given levels of a new cluster's features; only ELR may have another than the highest.

    Raises KafkaError(INVALID_CONFIG).
    """
    if release is not None and release not in (METADATA_VERSION_NAME, "4.3"):
        raise _refusal(
            f"Unknown metadata.version '{release}'. Supported metadata.version are:"
            f" {METADATA_VERSION_NAME}"
        )
    levels = _levels(stated)
    if release is not None and METADATA_VERSION_FEATURE in levels:
        raise _refusal(
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."
        )
    kraft_version = levels.pop(KRAFT_VERSION_FEATURE, int(is_dynamic))
    if kraft_version > SUPPORTED_KRAFT_VERSIONS.maximum:
        raise _refusal(f"No feature:{KRAFT_VERSION_FEATURE} with feature level {kraft_version}")
    if kraft_version != int(is_dynamic):
        raise _refusal(
            f"Cannot set kraft.version to {kraft_version} {'if' if is_dynamic else 'unless'}"
            f" controller.quorum.voters is empty and one of the flags {_DYNAMIC_FLAGS} is used. For"
            " dynamic controllers support, try "
            + (
                "removing the --feature flag for kraft.version."
                if is_dynamic
                else f"using one of {_DYNAMIC_FLAGS} and removing controller.quorum.voters."
            )
        )
    for name, level in levels.items():
        if name not in SUPPORTED_FEATURES:
            names = {*SUPPORTED_FEATURES, KRAFT_VERSION_FEATURE} - {METADATA_VERSION_FEATURE}
            raise _refusal(
                f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(names))}"
            )
        lowest, highest = SUPPORTED_FEATURES[name]
        if name == ELR_FEATURE and lowest <= level <= highest:
            continue
        if level != highest:
            raise _refusal(
                f"{name}={level} is not supported yet: a new cluster begins with level {highest}."
            )
    return levels


def _levels(stated: Sequence[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in stated:
        name, equals, level = (part.strip() for part in text.partition("="))
        problem = f"Can't parse feature=level string {text}: "
        if not equals:
            raise _refusal(f"{problem}equals sign not found.")
        if not (level.isascii() and level.isdigit() and len(level) < 6):
            raise _refusal(f"{problem}unable to parse {level} as a short.")
        levels[name] = int(level)
    return levels
