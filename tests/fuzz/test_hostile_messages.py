"""Requests that follow their schema and mean harm are answered, or end their connection.

Never with a traceback, an internal error or UNKNOWN_SERVER_ERROR, and never so that others are
served no more. `--seeds 0-999` sends more of them.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.api import SERVED, ApiKey, request_class, response_class
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from tierlog.clients.protocol.schema import Message, Struct
from tierlog.tests import wire

from ..broker_process import BrokerThread, RawClient
from .hostile_messages import HostileMessages

_FIRST_PRODUCE_VERSION = 3
_ANSWER_TIMEOUT_S = 30
_MAY_WAIT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.FETCH)
"""Their answers may come when others have done something, or never."""

_NAMES: dict[str, tuple[object, ...]] = {
    "acks": (-1, 1),
    "client_software_name": ("x",),
    "client_software_version": ("1",),
    "config_operation": (0, 1, 2, 3),
    "coordinator_keys": ("g", "x"),
    "current_leader_epoch": (-1, 0),
    "entity_name": ("nobody", "10.9.9.9"),
    "entity_type": ("user", "client-id", "ip"),
    "feature": ("metadata.version", "group.version", "transaction.version"),
    "fetch_offset": (0, 1),
    "generation_id": (-1, 1),
    "generation_id_or_member_epoch": (-1, 1),
    "group_id": ("g", "h"),
    "group_ids": ("g", "h"),
    "groups": ("g", "h"),
    "groups_names": ("g", "h"),
    "index": (0, 1),
    "key": ("g", "x"),
    "key_type": (0, 1),
    "leader_epoch": (-1, 0),
    "member_epoch": (0, -1, -2, 1),
    "member_id": ("", "m"),
    "name": ("t", "u"),
    "partition": (0, 1),
    "partition_index": (0, 1),
    "partition_indexes": (0, 1),
    "partitions": (0, 1),
    "producer_epoch": (0, -1),
    "producer_id": (0, 1, -1),
    "protocol_type": ("consumer",),
    "replica_id": (-1, 0, 5, -2),
    "resource_name": ("t", "u", "0", "", "g"),
    "resource_type": (2, 4, 8, 16, 32),
    "session_epoch": (0, 1, -1),
    "session_id": (0, 1),
    "session_timeout_ms": (10_000, 45_000),
    "subscribed_topic_names": ("t", "u"),
    "subscribed_topic_regex": (".*", "[", "t|u"),
    "topic": ("t", "u"),
    "topic_name": ("t", "u"),
    "transactional_id": ("x", "y"),
    "transactional_ids": ("x", "y"),
    "v3_and_below_transactional_id": ("x", "y"),
}


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Watch:
    """A broker, a well-behaved client of it, and its log."""

    def __init__(self, broker: BrokerThread, log: _Keep) -> None:
        self.port = broker.port
        self.log = log
        self.good = RawClient(broker.port)

    def topic_ids(self) -> tuple[Uuid, ...]:
        """The ids of both topics, which are made again if a request has deleted them."""
        topics = [
            wire.CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in "tu"
        ]
        creation = wire.CreateTopicsRequest(topics=topics, timeout_ms=9_000)
        self.good.ask(creation, 7, wire.CreateTopicsResponse)
        metadata = self.good.ask(wire.MetadataRequest(topics=None), 12, wire.MetadataResponse)
        ids = tuple(each.topic_id for each in metadata.topics if each.name in ("t", "u"))
        assert len(ids) == 2
        return ids

    def send(self, request: Message, version: int) -> Message | None:
        """The answer; None if there is none, or the connection ends instead."""
        key = type(request).api_key
        timeout_s = 0.05 if key in _MAY_WAIT else _ANSWER_TIMEOUT_S
        with RawClient(self.port, timeout_s) as client:
            header = RequestHeader(key, version, 1, "hostile")
            try:
                client.send_frame(encode_request_header(header) + encode_bytes(request, version))
                if isinstance(request, wire.ProduceRequest) and request.acks == 0:
                    return None
                frame = memoryview(bytearray(client.receive_frame()))
            except (EOFError, ConnectionError):
                return None
            except TimeoutError:
                assert key in _MAY_WAIT
                return None
        _, position = decode_response_header(key, version, frame)
        return decode(response_class(key), version, frame, position)[0]


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    handler = _Keep()
    logging.getLogger().addHandler(handler)
    directories: list[Path] = [tmp_path_factory.mktemp("data") for _ in range(2)]
    properties = {
        "auto.create.topics.enable": "false",
        "log.dirs": ",".join(map(str, directories)),
        "transaction.state.log.num.partitions": "3",
    }
    try:
        with BrokerThread(directories[0], properties) as broker:
            watch = Watch(broker, handler)
            yield watch
            watch.good.socket.close()
    finally:
        logging.getLogger().removeHandler(handler)


def has_unknown_server_error(value: object) -> bool:
    if isinstance(value, Struct):
        return any(
            (name.endswith("error_code") and getattr(value, name) == ErrorCode.UNKNOWN_SERVER_ERROR)
            or has_unknown_server_error(getattr(value, name))
            for name in value.__declared__
        )
    if not isinstance(value, list):
        return False
    return any(map(has_unknown_server_error, cast("list[object]", value)))


def test_a_hostile_request_is_answered_or_ends_its_connection(
    watch: Watch, simulation_seed: int
) -> None:
    names = {**_NAMES, "topic_id": watch.topic_ids()}
    for key, api in SERVED.items():
        lowest = _FIRST_PRODUCE_VERSION if key == ApiKey.PRODUCE else api.lowest_version
        for version in range(lowest, api.highest_version + 1):
            messages = HostileMessages(f"{simulation_seed} {key} {version}", names)
            request = messages.message(request_class(key), version)
            logged = len(watch.log.records)
            answer = watch.send(request, version)
            assert not has_unknown_server_error(answer), (version, request)
            faults = [
                record.getMessage()
                for record in watch.log.records[logged:]
                if record.levelno >= logging.ERROR or record.exc_info
            ]
            assert not faults, (version, request)
    watch.topic_ids()
