"""What is said on a local cluster's control socket: one JSON object a line, both ways.

    -> {"act": "kill", "nodes": [2], "is_hard": true}
    <- {"progress": "broker-2 is ending"}
    <- {"done": {}}                            or {"refused": "one sentence"}

Requests and answers are bounded, and nothing of either is believed. Nothing here does I/O.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple, cast

from .cluster_plan import BROKERS_MAX, CONTROLLERS_MAX, FIRST_CONTROLLER_ID

REQUEST_BYTES_MAX = 4096
ANSWER_BYTES_MAX = 1 << 18
ACTS = ("status", "wait", "kill", "pause", "resume", "start", "add", "remove", "roll", "stop")

_NODES_MAX = BROKERS_MAX + CONTROLLERS_MAX
_ID_MAX = FIRST_CONTROLLER_ID + CONTROLLERS_MAX
_RACK_MAX = 200


class RefusedError(Exception):
    """An act was refused, or did not succeed; the text is one sentence for the user."""


class Request(NamedTuple):
    """An act, and what it is done to."""

    act: str
    nodes: tuple[int, ...] = ()
    is_hard: bool = False
    """kill and stop: SIGKILL instead of SIGTERM."""
    waits: bool = True
    """start: answer when the nodes are ready."""
    rack: str = ""
    """add: the rack of the new broker."""

    def encode(self) -> bytes:
        """The request as a line."""
        return json.dumps(self._asdict()).encode() + b"\n"


def decode_request(line: bytes) -> Request:
    """Read a request. Raises RefusedError."""
    fields = _fields(line, REQUEST_BYTES_MAX)
    if fields is None:
        raise RefusedError("The request is not a JSON object of one line.")
    unknown = sorted(set(fields) - set(Request._fields))
    if unknown:
        raise RefusedError(f"The request has a field that there is not: {unknown[0][:40]!r}.")
    act, nodes, rack = fields.get("act"), fields.get("nodes", []), fields.get("rack", "")
    is_hard, waits = fields.get("is_hard", False), fields.get("waits", True)
    if not isinstance(act, str) or act not in ACTS:
        raise RefusedError(f"The act of a request is one of: {', '.join(ACTS)}.")
    if not isinstance(nodes, list) or len(cast("list[object]", nodes)) > _NODES_MAX:
        raise RefusedError("The nodes of a request are a list of ids.")
    ids = [each for each in cast("list[object]", nodes) if _is_id(each)]
    if len(ids) < len(cast("list[object]", nodes)):
        raise RefusedError(f"The id of a node is a number from 1 to {_ID_MAX}.")
    if not isinstance(rack, str) or len(rack) > _RACK_MAX or not rack.isprintable():
        raise RefusedError("The rack of a request is a short text.")
    if not isinstance(is_hard, bool) or not isinstance(waits, bool):
        raise RefusedError("is_hard and waits are true or false.")
    return Request(act, tuple(cast("list[int]", ids)), is_hard, waits, rack)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _ID_MAX


class Answer(NamedTuple):
    """One line of an answer: progress, or the last line, which is done or refused."""

    progress: str = ""
    done: Mapping[str, object] | None = None
    refused: str = ""

    @property
    def is_last(self) -> bool:
        return not self.progress

    def encode(self) -> bytes:
        """The answer as a line."""
        if self.progress:
            return json.dumps({"progress": self.progress}).encode() + b"\n"
        if self.refused:
            return json.dumps({"refused": self.refused}).encode() + b"\n"
        return json.dumps({"done": dict(self.done or {})}).encode() + b"\n"

    def value(self) -> Mapping[str, object]:
        """What was done. Raises RefusedError."""
        if self.done is None:
            raise RefusedError(self.refused)
        return self.done


def decode_answer(line: bytes) -> Answer:
    """Read a line of an answer. Raises RefusedError if the cluster did not send one."""
    fields = _fields(line, ANSWER_BYTES_MAX) or {}
    progress, done, refused = (fields.get(name) for name in ("progress", "done", "refused"))
    if isinstance(progress, str) and progress:
        return Answer(progress=progress)
    if isinstance(done, dict):
        return Answer(done=cast("dict[str, object]", done))
    if isinstance(refused, str) and refused:
        return Answer(refused=refused)
    raise RefusedError("The cluster's process answered with something else than an answer.")


def _fields(line: bytes, bytes_max: int) -> dict[str, object] | None:
    if len(line) > bytes_max:
        return None
    try:
        value = cast("object", json.loads(line))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None
