"""`tierlog cluster up`: the process that runs a local cluster, in the foreground.

Prints the output of its nodes, each line with the name of its node, and one line once all are
ready. The first Ctrl-C, SIGTERM or SIGHUP stops all cleanly, a second Ctrl-C or SIGTERM kills them.

Supervised (`tierlog.testing`), it prints no output of nodes but keeps it in a file for each, takes
requests on stdin as on the control socket, answers on stdout, and kills all nodes when stdin ends.
"""

import argparse
import asyncio
import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Mapping

from .. import __version__
from ..clients.errors import KafkaError
from ..clients.kafka_uuid import uuid_to_string
from ..clients.properties import parse_properties, shown_pair
from ..clients.runtime.absolute_path import absolute_path
from ..clients.runtime.environment import SystemEnvironment
from ..clients.runtime.stop_signals import stop_signals
from ..clients.runtime.task_owner import TaskOwner
from ..clients.text_table import counted
from ..storage.directory.log_dir import LogDirError
from ..storage.files import DirectoryLock, Files, OsFiles
from ..testing.local_cluster.cluster_acts import ClusterActs
from ..testing.local_cluster.cluster_plan import (
    ClusterPlan,
    PlanError,
    check_directory,
    check_stated,
    new_plan,
    plan_from_json,
    rack_of,
)
from ..testing.local_cluster.control_messages import RefusedError
from ..testing.local_cluster.control_server import SOCKET_FILE, ControlServer
from ..testing.local_cluster.local_cluster import PLAN_FILE, LocalCluster, Shell
from ..testing.local_cluster.node_output import KeptOutput, PrefixedOutput
from ..testing.local_cluster.supervised_pipe import SupervisedPipe

_FAILED = 1
_WRONG_ARGUMENTS = 2
_KILLED = 130
_LOCK_FILE = ".cluster.lock"
_DEFAULT_BROKERS = 3
_TASKS_MAX = 4


def run_cluster(parsed: argparse.Namespace, started_ms: int) -> int:
    """Run a cluster; returns the exit code. The process began at `started_ms`."""
    files = OsFiles()
    directory: str = parsed.dir
    try:
        directory = absolute_path(directory)
        check_directory(directory)
        stated = _stated_properties(parsed, files)
        files.mkdirs(directory)
        lock = files.lock(f"{directory}/{_LOCK_FILE}")
        plan = _plan(parsed, stated, directory, files)
    except BlockingIOError:
        return _give_up(
            f"A cluster runs in {directory} already: stop it, or name another one with --dir.",
            _FAILED,
        )
    except (PlanError, KafkaError) as error:
        text = error.message if isinstance(error, KafkaError) else str(error)
        return _give_up(text, _WRONG_ARGUMENTS)
    except OSError as error:
        return _give_up(f"{directory} cannot be used: {error.strerror}.", _FAILED)
    # The path of a socket must be short, and that of a directory need not be.
    os.chdir(directory)
    with asyncio.Runner() as runner:
        run = _Run(plan, directory, files, is_supervised=parsed.supervised)
        try:
            return runner.run(run.until_stopped(started_ms))
        finally:
            _let_go(lock, files, directory if parsed.temporary else "")


def _let_go(lock: DirectoryLock, files: Files, temporary: str) -> None:
    lock.release()
    if temporary:
        with contextlib.suppress(OSError):
            files.remove_tree(temporary)


def _stated_properties(parsed: argparse.Namespace, files: Files) -> dict[str, str]:
    """The properties that the user states. Raises PlanError, KafkaError(INVALID_CONFIG)."""
    stated: dict[str, str] = {}
    if parsed.properties is not None:
        try:
            stated = parse_properties(files.read(parsed.properties).decode())
        except OSError as error:
            raise PlanError(
                f"The file {parsed.properties} cannot be read: {error.strerror}."
            ) from None
        except UnicodeDecodeError:
            raise PlanError(f"The file {parsed.properties} is not UTF-8 text.") from None
    for override in parsed.override:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise PlanError(f"--override {shown_pair(override)} is not of the form name=value.")
        stated[name.strip()] = value
    check_stated(stated)
    return stated


def _plan(
    parsed: argparse.Namespace, stated: Mapping[str, str], directory: str, files: Files
) -> ClusterPlan:
    """The cluster of the directory, or a new one. Raises PlanError, OSError."""
    racks = [part.strip() for part in parsed.rack.split(",")] if parsed.rack else []
    path = f"{directory}/{PLAN_FILE}"
    if not files.exists(path):
        brokers = _DEFAULT_BROKERS if parsed.brokers is None else parsed.brokers
        cluster_id = uuid_to_string(SystemEnvironment().random_uuid())
        plan = new_plan(cluster_id, brokers, parsed.controllers or 0, racks)
        return plan.stating(stated)
    try:
        plan = plan_from_json(files.read(path))
    except PlanError as error:
        raise PlanError(
            f"{path} is not the file of a cluster: {error}. Name another directory with --dir."
        ) from None
    _check_same(parsed, plan, directory)
    if racks:
        for seat in plan.brokers:
            plan = plan.with_seat(seat._replace(rack=rack_of(seat.node_id, racks)))
    return plan.stating(stated) if stated else plan


def _check_same(parsed: argparse.Namespace, plan: ClusterPlan, directory: str) -> None:
    apart = len([controller for controller in plan.controllers if not controller.is_broker])
    brokers = len(plan.brokers)
    if parsed.brokers not in (None, brokers) or parsed.controllers not in (None, apart):
        raise PlanError(
            f"{directory} has a cluster of {counted(brokers, 'broker')} and"
            f" {counted(apart, 'controller')} apart from them."
            " Leave out --brokers and --controllers, change it with `tierlog cluster add` and"
            " `remove` once it runs, or name another directory with --dir."
        )


class _Run:
    """One run of a cluster."""

    def __init__(
        self, plan: ClusterPlan, directory: str, files: Files, *, is_supervised: bool
    ) -> None:
        self._is_supervised = is_supervised
        self._directory = directory
        self._stop = asyncio.Event()
        self._kill = asyncio.Event()
        environment = SystemEnvironment()
        output = (
            KeptOutput(directory, files)
            if is_supervised
            else PrefixedOutput(sys.stdout, self._stop.set)
        )
        self._say = output.say
        shell = Shell(
            files=files,
            environment=environment,
            command=(sys.executable, "-m", "tierlog.cli"),
            variables=_variables(),
            format=_formatter(files),
            on_line=output.take,
            say=output.say,
        )
        self._cluster = LocalCluster(plan, directory, shell)
        self._acts = ClusterActs(self._cluster, self._on_stop)
        self._server = ControlServer(self._acts.perform, self._say)
        self._pipe = SupervisedPipe(self._server, lambda: self._on_stop(True))

    async def until_stopped(self, started_ms: int) -> int:
        """Start the cluster, wait for the end, and stop it; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            # A terminal that closes is one reason, though it says so several times.
            is_said_once = number == signal.SIGHUP
            loop.add_signal_handler(
                number, self._stop.set if is_said_once else lambda: self._on_stop(False)
            )
        tasks = TaskOwner(_TASKS_MAX, lambda task, failure: None)
        try:
            await self._server.start(SOCKET_FILE)
            if self._is_supervised:
                await self._pipe.start(sys.stdin, sys.stdout)
            starting = tasks.start(self._cluster.up(), "up")
            stopping = tasks.start(self._stop.wait(), "stop")
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self._say_ready(started_ms)
                await self._stop.wait()
            else:
                starting.cancel()
                await asyncio.wait((starting,))
            return await self._end(tasks)
        except (RefusedError, LogDirError, OSError) as error:
            return _give_up(str(error), _FAILED)
        finally:
            await self._cluster.close()
            await tasks.stop()
            await self._server.stop()

    def _say_ready(self, started_ms: int) -> None:
        took_s = (SystemEnvironment().wall_clock_ms() - started_ms) / 1000
        plan = self._cluster.plan
        apart = len([controller for controller in plan.controllers if not controller.is_broker])
        brokers = counted(len(plan.brokers), "broker")
        controllers = f" and {counted(apart, 'controller')}" if apart else ""
        self._say(
            f"tierlog {__version__} cluster ready on {plan.bootstrap} in {took_s:.2f} s:"
            f" {brokers}{controllers}, data in {self._directory}"
        )

    async def _end(self, tasks: TaskOwner) -> int:
        """Stop cleanly, unless the second signal comes meanwhile."""
        if not self._kill.is_set():
            self._say("Stopping the cluster; Ctrl-C once more kills it.")
            stopping = tasks.start(self._cluster.stop(), "clean stop")
            killing = tasks.start(self._kill.wait(), "kill")
            await asyncio.wait((stopping, killing), return_when=asyncio.FIRST_COMPLETED)
        if self._kill.is_set():
            await self._cluster.kill_all()
            return 0 if self._is_supervised else _KILLED
        return 0

    def _on_stop(self, is_hard: bool) -> None:
        if is_hard or self._stop.is_set():
            self._kill.set()
        self._stop.set()


def _variables() -> Mapping[str, str]:
    """Bytecode is cached, so that the next start is quick; output comes line by line."""
    inherited = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONUNBUFFERED": "1"}


def _formatter(files: Files) -> Callable[[str, int, str], None]:
    def format_node(cluster_id: str, node_id: int, path: str) -> None:
        from .formatted_directories import FormatPlan, format_directories

        plan = FormatPlan(cluster_id, node_id, [path], "CONTROLLER", ())
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                format_directories(plan, files, SystemEnvironment())
        except KafkaError as error:
            raise RefusedError(error.message) from None

    return format_node


def _give_up(message: str, code: int) -> int:
    print(f"tierlog cluster: {message}", file=sys.stderr, flush=True)
    return code
