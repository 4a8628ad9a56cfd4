"""`tierlog cluster info|ping|wait`: the commands of `tierlog cluster` for any cluster."""

import argparse
import asyncio

from ...clients.admin import ClusterDescription
from ...clients.errors import ErrorCode, KafkaError
from ...clients.text_table import counted
from .client_session import Session, print_note, run_command

_LOOK_AGAIN_SECONDS = 0.2


def run_client_command(parsed: argparse.Namespace) -> int:
    """Run one of the commands; returns the exit code."""
    name = parsed.cluster_command
    return run_command(_COMMANDS[name], parsed, asks_first=name == "info")


async def _info(_parsed: argparse.Namespace, session: Session) -> None:
    async with session.admin() as admin:
        cluster = await admin.describe_cluster()
    session.result(_content(cluster))
    session.line(f"cluster {cluster.cluster_id}")
    session.table(
        ["broker", "address", "rack", ""],
        [
            [
                str(broker_id),
                str(cluster.brokers[broker_id]),
                cluster.racks.get(broker_id) or "none",
                "controller" if broker_id == cluster.controller_id else "",
            ]
            for broker_id in sorted(cluster.brokers)
        ],
    )


def _content(cluster: ClusterDescription) -> dict[str, object]:
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "brokers": [
            {
                "broker": broker_id,
                "host": cluster.brokers[broker_id].host,
                "port": cluster.brokers[broker_id].port,
                "rack": cluster.racks.get(broker_id),
            }
            for broker_id in sorted(cluster.brokers)
        ],
    }


async def _ping(_parsed: argparse.Namespace, session: Session) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await session.ensure_answers()
    elapsed_ms = round((loop.time() - started) * 1000, 1)
    session.line(f"{session.bootstrap} answers ({elapsed_ms} ms)")
    session.result({"bootstrap": session.bootstrap, "answers": True, "ms": elapsed_ms})


async def _wait(parsed: argparse.Namespace, session: Session) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + parsed.timeout
    print_note(f"waiting for {session.bootstrap}")
    while True:
        try:
            cluster = await _cluster(session)
        except KafkaError as error:
            failure = KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"No broker answered within {parsed.timeout:g} s. {error.message}",
            )
        else:
            count = len(cluster.brokers)
            if count >= parsed.brokers:
                session.line(f"{counted(count, 'broker')} ready")
                session.result(_content(cluster))
                return
            failure = KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"After {parsed.timeout:g} s the cluster has {count} of"
                f" {counted(parsed.brokers, 'broker')}.",
            )
        if loop.time() + _LOOK_AGAIN_SECONDS > deadline:
            raise failure
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def _cluster(session: Session) -> ClusterDescription:
    await session.ensure_answers()
    async with session.admin() as admin:
        return await admin.describe_cluster()


_COMMANDS = {"info": _info, "ping": _ping, "wait": _wait}
