"""`tierlog secure init`: what a secured broker for development needs, in one new directory.

An authority, the broker's certificate, a user with SCRAM in a formatted data directory, the
broker's properties, and lines for five clients. Keys and the password are readable by their owner
alone. The directory appears whole or not at all, and is never one that is there already.

Exit codes: 0 written, 1 refused.
"""

import argparse
import base64
import errno
import hashlib
import os
import re
import shlex
import sys
from ipaddress import ip_address

from ..broker.config.quorum_config import PORT_MAX
from ..clients.errors import ErrorCode, KafkaError
from ..clients.kafka_uuid import uuid_to_string
from ..clients.runtime.absolute_path import absolute_path
from ..clients.runtime.environment import Environment, SystemEnvironment
from ..storage.durable_directory import make_durably
from ..storage.files import OsFiles
from ..storage.private_files import make_private_directory, write_private
from .formatted_directories import FormatPlan, write_formatted
from .scram_users import scram_user
from .secure_texts import (
    MECHANISM,
    SecuredBroker,
    client_lines,
    client_properties,
    server_properties,
)

_DAYS = 825
_USER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*")
_LABEL_MAX = 63
"""The longest part of a host name."""

_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
"""Why a directory cannot get a name that something else has."""

_EXAMPLES = """\
DIR must not exist. It gets
  server.properties     the broker's file: TLS and SCRAM for clients, a certificate for nodes
  data                  a formatted data directory whose cluster has the user
  ca.pem, ca.key        an authority that clients trust, and its key
  broker.pem            the broker's key and certificate
  password              the user's password, 24 random bytes
  client.properties     for Java clients and Kafka's tools
  clients.md            a program for each of confluent-kafka, aiokafka, Java, franz-go, kafkajs
Only the owner can read any of it.

examples:
  tierlog secure init dev
  tierlog serve --config dev/server.properties
  tierlog secure init dev --host kafka.example.org --port 9443

exit code: 0 written, 1 refused, 2 wrong arguments
"""


def add_secure_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `tierlog secure`."""
    parser.description = (
        "Make certificates, a user and a properties file for a secured development broker."
    )
    commands = parser.add_subparsers(dest="secure_command", metavar="command", required=True)
    line = "write an authority, a certificate, a user and a broker's file into a new directory"
    init = commands.add_parser(
        "init",
        help=line,
        description=line[0].upper() + line[1:] + ".",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    init.add_argument("directory", metavar="DIR", help="the directory to make")
    init.add_argument(
        "--host",
        metavar="HOST",
        default="localhost",
        help="the name or address under which clients reach the broker (default: localhost, and"
        " then it listens only there)",
    )
    init.add_argument(
        "--port",
        metavar="PORT",
        type=int,
        default=9093,
        help="the port for clients; the next one is for nodes (default: 9093)",
    )
    init.add_argument(
        "--user", metavar="NAME", default="admin", help="the user, a super user (default: admin)"
    )
    init.add_argument(
        "--days",
        metavar="DAYS",
        type=int,
        default=_DAYS,
        help=f"how long the broker's certificate holds (default: {_DAYS}, the most that Apple's"
        " systems accept)",
    )


def run_secure_command(parsed: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    try:
        broker = _broker(parsed)
        _write(broker, parsed.days, SystemEnvironment())
    except KafkaError as error:
        print(error.message, file=sys.stderr)
        return 1
    except OSError as error:
        # Not `storage_message`: there is no log.dirs yet that could name another place.
        print(
            f"{error.filename or parsed.directory} cannot be written: {error.strerror}. Nothing was"
            " left behind. Fix this, or name another directory.",
            file=sys.stderr,
        )
        return 1
    shown = shlex.quote(os.path.normpath(parsed.directory))
    print(
        f"{shown} has a broker's file, its keys, and user {broker.user}, with clients at"
        f" {broker.address}.\n"
        f"Start it:          tierlog serve --config {shown}/server.properties\n"
        f"Connect clients:   {shown}/clients.md has lines for five"
    )
    return 0


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _broker(parsed: argparse.Namespace) -> SecuredBroker:
    """The checked arguments. Raises KafkaError(INVALID_CONFIG)."""
    directory: str = absolute_path(parsed.directory)
    host: str = parsed.host
    if not directory.isprintable() or "," in directory:
        # A comma would divide log.dirs.
        raise _refusal(f"{directory!r} has a character that no path in a properties file can have.")
    if not _is_host(host):
        raise _refusal(f"--host {host} is neither a host name nor an address.")
    if not 0 < parsed.port < PORT_MAX:
        raise _refusal(f"--port {parsed.port} is not between 1 and {PORT_MAX - 1}.")
    if not _USER.fullmatch(parsed.user):
        raise _refusal(
            f"--user {parsed.user} is not 1 to 64 letters, digits, dots, dashes and underscores."
        )
    if not 0 < parsed.days <= _DAYS:
        raise _refusal(f"--days {parsed.days} is not between 1 and {_DAYS}.")
    return SecuredBroker(directory, host, parsed.port, parsed.user)


def _is_host(text: str) -> bool:
    try:
        return not ip_address(text).is_unspecified and "%" not in text
    except ValueError:
        labels = text.split(".")
        is_name = all(0 < len(label) <= _LABEL_MAX for label in labels)
        return is_name and _HOST.fullmatch(text) is not None and not labels[-1].isdigit()


def _write(broker: SecuredBroker, days: int, environment: Environment) -> None:
    """Write everything beside the directory, and give it its name at the end.

    Raises OSError, and KafkaError(INVALID_CONFIG) if the directory is there already.
    """
    files = OsFiles()
    directory = broker.directory
    occupied = _refusal(
        f"{directory} exists, and nothing in it is overwritten: name another directory, or remove"
        " this one."
    )
    if files.exists(directory):
        raise occupied
    contents = _contents(broker, days, environment)
    make_durably(files, os.path.dirname(directory))
    unfinished = f"{directory}.{environment.random_uuid().hex()}.tmp"
    make_private_directory(unfinished)
    try:
        for name, content in contents.items():
            write_private(f"{unfinished}/{name}", content)
        _format(broker, unfinished, contents["password"].decode(), environment)
        files.sync_dir(unfinished)
        try:
            files.rename(unfinished, directory)
        except OSError as error:
            # A link to nothing is there, or somebody else was faster.
            raise occupied if error.errno in _OCCUPIED else error from None
    finally:
        if files.exists(unfinished):
            files.remove_tree(unfinished)
    files.sync_dir(os.path.dirname(directory))


def _contents(broker: SecuredBroker, days: int, environment: Environment) -> dict[str, bytes]:
    """The content of each file by its name. Raises KafkaError(INVALID_CONFIG)."""
    # Imported when it runs: `--help` needs no package of an extra.
    from ..security.tls.issuer import issue_keys

    authority = environment.random_uuid()[:4].hex()
    try:
        keys = issue_keys(broker.hosts, authority, environment.wall_clock_ms(), days)
    except ImportError:
        raise _refusal(
            "tierlog secure needs the Python package cryptography, which is not installed:"
            " pip install cryptography"
        ) from None
    entropy = b"".join(environment.random_uuid() for _ in range(4))
    password = base64.urlsafe_b64encode(hashlib.sha256(entropy).digest()[:24]).decode()
    return {
        "ca.key": keys.authority_key,
        "ca.pem": keys.authority,
        "broker.pem": keys.broker_key + keys.broker,
        "password": password.encode(),
        "server.properties": server_properties(broker).encode(),
        "client.properties": client_properties(broker, password).encode(),
        "clients.md": client_lines(broker).encode(),
    }


def _format(
    broker: SecuredBroker, unfinished: str, password: str, environment: Environment
) -> None:
    """Make a data directory whose cluster begins with the user."""
    path = f"{unfinished}/data"
    user = scram_user(f"{MECHANISM}=[name={broker.user},password={password}]", environment)
    cluster_id = uuid_to_string(environment.random_uuid())
    plan = FormatPlan(cluster_id, 0, (path,), "", (), users=(user,))
    write_formatted(plan, path, OsFiles(), environment)
