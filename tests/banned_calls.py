"""What code may not call, what it calls instead, and the one door where the call is made.

Time, chance, disk, network, threads and tasks each have one door, so that a simulation can stand in
for all of them (tests/simulation/).
A name ending in `.*` bans the whole module. Doors are paths in the repository, or folders ending in
a slash.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ban:
    """Names that are banned together, what to write instead, and who alone may use them."""

    names: frozenset[str]
    instead: str
    doors: tuple[str, ...] = ()

    def is_open_to(self, path: str) -> bool:
        """Whether the file at `path` is one of the doors."""
        return any(
            path.startswith(door) if door.endswith("/") else path == door for door in self.doors
        )


def _ban(names: str, instead: str, *doors: str) -> Ban:
    return Ban(frozenset(names.split()), instead, doors)


def _of(module: str, names: str) -> str:
    return " ".join(f"{module}.{name}" for name in names.split())


_KERNEL_PATH = re.compile(r"(/proc|/sys|/dev/shm)(?:/|$)")


BANS = (
    _ban(
        "time.*",
        "the running loop's time(), Environment.wall_clock_ms() or a now_ms argument",
        "clients/runtime/environment.py",
        "testing/system_clock.py",  # the same for a test's broker, whatever the test freezes
    ),
    _ban(
        _of("datetime.datetime", "now utcnow today") + " datetime.date.today",
        "Environment.wall_clock_ms()",
    ),
    _ban(
        _of("random", "random randint randrange choice choices shuffle sample uniform gauss")
        + " "
        + _of(
            "random", "getrandbits randbytes seed expovariate betavariate triangular SystemRandom"
        )
        + " random.Random() secrets.*",
        "Environment.random",
        "clients/runtime/environment.py",
    ),
    _ban(
        "uuid.uuid1 uuid.uuid4 os.urandom",
        "Environment.random_uuid()",
        "clients/runtime/environment.py",
    ),
    _ban(
        "open() io.open io.FileIO mmap.* fcntl.* shutil.* tempfile.* pathlib.* glob.* "
        + _of("os", "open read write pread pwrite preadv pwritev readv writev lseek close dup")
        + " "
        + _of(
            "os", "fsync fdatasync sync truncate ftruncate stat lstat fstat statvfs posix_fallocate"
        )
        + " "
        + _of(
            "os",
            "rename renames replace remove unlink rmdir removedirs mkdir makedirs link symlink",
        )
        + " "
        + _of("os", "listdir scandir walk chmod chown utime access")
        + " "
        + _of("os.path", "exists isfile isdir getsize getmtime realpath lexists islink"),
        "storage/files.py, the one door to the disk",
        "storage/files.py",
        "storage/memory_map.py",  # a part of that door
        "storage/system_calls.py",  # another part
        "storage/private_files.py",  # a third
        "clients/runtime/own_descriptors.py",  # /dev/null, in a process that was forked
        "pipeline/spark/jars.py",  # a cache of jars, which no broker has
        "pipeline/spark/typed/schema_file.py",  # a file that users name
        "testing/local_cluster/sync_cluster.py",  # temporary directories of users' tests
        "testing/local_cluster/async_cluster.py",
        "testing/local_cluster/inherited_properties.py",  # a file without a name
        "testing/data_directory.py",
        "testing/host_process.py",  # the log of a test's broker
    ),
    _ban(
        "threading.* _thread.* multiprocessing.* asyncio.to_thread "
        "concurrent.futures.ThreadPoolExecutor concurrent.futures.ProcessPoolExecutor",
        "one of the named, bounded executors",
        "tiering/blocking_pool.py",
        "broker/broker.py",
        "broker/node_storage.py",
        "cli/stacks.py",  # the names of threads, for SIGUSR1
        "testing/local_cluster/sync_cluster.py",  # a lock: users' tests may have threads
        "testing/loop_thread.py",  # a test's broker beside the test
        "testing/faults/fault.py",
        "testing/faults/request_faults.py",
        "testing/faults/tier_faults.py",
        "pipeline/spark/typed/registry.py",  # the deadline of an answer
        "pipeline/tables/record_stream.py",  # users wait for a scan in threads with loops of theirs
        "pipeline/reading/tier_topics.py",  # and for the topics of a tier
    ),
    _ban("run_in_executor(None)", "one of the named, bounded executors"),
    _ban(
        "socket.* select.* selectors.* ssl.* asyncio.open_connection asyncio.start_server "
        "asyncio.StreamReader asyncio.StreamWriter",
        "the running loop's create_server and create_connection, inside a transport",
        "cli/readiness.py",  # a datagram to the service manager
        "testing/local_cluster/held_ports.py",
        "broker/network/hangup_watch.py",
        "broker/network/socket_listener.py",
        "broker/network/tls_transport.py",
        "broker/network/transport.py",
        "testing/host_process.py",  # the pipes of a test's broker
        "testing/own_loop.py",  # a selector of its own, to keep it from forks
        "security/tls/",  # OpenSSL without a socket
        "clients/network/",
        "storage/system_calls.py",  # names of options
        "pipeline/spark/typed/registry.py",  # a client in the driver of a Spark job
    ),
    _ban(
        _of("os", "memfd_create posix_fallocate posix_fadvise fdatasync sendfile splice eventfd")
        + " "
        + _of("os", "copy_file_range pidfd_open sched_getaffinity sched_setaffinity getrandom")
        + " "
        + _of("select", "epoll EPOLLRDHUP EPOLLEXCLUSIVE POLLRDHUP kqueue kevent")
        + " "
        + _of("socket", "TCP_CONGESTION TCP_CORK TCP_QUICKACK TCP_USER_TIMEOUT TCP_DEFER_ACCEPT")
        + " "
        + _of("socket", "MSG_MORE MSG_NOSIGNAL MSG_ZEROCOPY SO_PEERCRED SO_BINDTODEVICE SO_MARK")
        + " "
        + _of("errno", "EREMOTEIO ENOTUNIQ ENOKEY ENOMEDIUM ERFKILL EUCLEAN ECOMM ENONET EXFULL")
        + " signal.SIGSTKFLT signal.SIGPWR signal.signalfd fcntl.F_FULLFSYNC fcntl.F_SETPIPE_SZ"
        + " sys.platform platform.* '/proc' '/sys' '/dev/shm'",
        "storage/system_calls.py, which knows what not every system has",
        "storage/system_calls.py",
        "clients/runtime/supported_system.py",  # what is said where it cannot be imported
    ),
    _ban(
        "asyncio.create_task asyncio.ensure_future loop.create_task",
        "an owner that waits for its tasks: asyncio.TaskGroup or clients/runtime/task_owner.py",
        "clients/runtime/task_owner.py",
        "broker/network/socket_server.py",  # SocketServer.adopt owns the requests under way
    ),
    _ban(
        "ctypes.* _ctypes.* cffi.*",
        "storage/memory_map.py",
        "storage/memory_map.py",
        "testing/system_clock.py",  # a clock that no test moves
        "storage/system_calls.py",
    ),
    _ban("pickle.* marshal.* shelve.* dill.*", "msgpack, or Kafka's own format"),
    _ban(
        "eval() exec() compile()",
        "plain code",
        "clients/protocol/source.py",  # codecs are compiled into straight-line code
        "clients/protocol/schema.py",  # and so are the keyword constructors
    ),
    _ban("asyncio.get_event_loop", "asyncio.get_running_loop()"),
    _ban(
        "subprocess.* asyncio.create_subprocess_exec asyncio.create_subprocess_shell os.system "
        "os.popen os.fork os.kill os.abort",
        "nothing: no process of a broker starts another",
        "testing/local_cluster/",  # it is what `tierlog cluster` is for
        "testing/host_process.py",  # a test's broker beside the test
        "pipeline/spark/jars.py",  # Ivy fetches them
    ),
    _ban(
        "os._exit",
        "an error that is raised",
        "cli/__main__.py",  # before the broker is up, and after it has stopped
        "cli/serve.py",  # a second signal
        "storage/system_calls.py",  # between fork and exec
    ),
    _ban(
        "print() sys.exit exit() quit()",
        "the log, an error that is raised",
        "cli/__main__.py",
        "cli/",
        "cli/printed_output.py",
        "tiering/tools/terminal.py",  # what talks to a terminal
    ),
)

# The tests may do what the code may not, except for these.
TEST_BANS = (
    _ban("time.sleep", "wait_until the condition itself holds", "tests/waiting.py"),
    _ban("unittest.mock.*", "the real thing, or one of the simulated ones in tests/simulation/"),
    _ban(
        "pytest.skip pytest.importorskip pytest.mark.skip pytest.mark.skipif unittest.skip",
        '@pytest.mark.requires("java"), so that what did not run is named',
        "tests/conftest.py",
    ),
    _ban("eval() exec()", "plain code"),
)


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every (line, full dotted name) that a module imports from elsewhere, refers to or calls.

    A call of a plain name or of a class is told apart by a trailing `()`: `random.Random` may stand
    in an annotation where `random.Random()` may not be made. A string with a path in the kernel's
    file systems is the first part of it, in quotation marks.
    """
    names = _imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, f"{alias.name}.*"
        elif isinstance(node, ast.Attribute):
            dotted = _dotted(node, names)
            if dotted is not None:
                yield node.lineno, dotted
        elif isinstance(node, ast.Call):
            yield from _called(node, names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            path = _KERNEL_PATH.match(node.value)
            if path is not None:
                yield node.lineno, f"'{path[1]}'"


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """What each local name that an import binds stands for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
                else:
                    top = alias.name.partition(".")[0]
                    names[top] = top
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    """The full name of an attribute chain whose root an import binds; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    return ".".join([names[node.id], *reversed(parts)])


def _called(call: ast.Call, names: dict[str, str]) -> Iterator[tuple[int, str]]:
    function = call.func
    dotted = _dotted(function, names)
    if dotted is not None:
        yield call.lineno, f"{dotted}()"
    elif isinstance(function, ast.Name) and function.id in {"getattr", "hasattr"}:
        yield from _asked_for(call, names)
    elif isinstance(function, ast.Name):
        yield call.lineno, f"{function.id}()"
    elif isinstance(function, ast.Attribute):
        yield from _called_on_a_loop(call, function)


def _asked_for(call: ast.Call, names: dict[str, str]) -> Iterator[tuple[int, str]]:
    """An attribute of a module by its name, as a string."""
    name = call.args[1] if len(call.args) > 1 else None
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        module = names.get(ast.unparse(call.args[0]))
        if module is not None:
            yield call.lineno, f"{module}.{name.value}"


def _called_on_a_loop(call: ast.Call, method: ast.Attribute) -> Iterator[tuple[int, str]]:
    """The two methods of an event loop by which work escapes its owner."""
    receiver = ast.unparse(method.value)
    if method.attr == "create_task" and receiver.rstrip("()").endswith("loop"):
        yield call.lineno, "loop.create_task"
    first = call.args[0] if call.args else None
    if method.attr == "run_in_executor" and isinstance(first, ast.Constant) and first.value is None:
        yield call.lineno, "run_in_executor(None)"


def banned(path: str, tree: ast.Module, bans: tuple[Ban, ...]) -> Iterator[tuple[int, str]]:
    """The first (line, sentence) for each door that the file at `path` goes past."""
    active = [ban for ban in bans if not ban.is_open_to(path)]
    reported: set[str] = set()
    for line, name in uses(tree):
        for ban in active:
            if _matches(name, ban.names) and ban.instead not in reported:
                reported.add(ban.instead)
                yield line, f"{name} is banned here; use {ban.instead}"


def _matches(name: str, names: frozenset[str]) -> bool:
    if name in names:
        return True
    module, dot, _ = name.rpartition(".")
    while dot:
        if f"{module}.*" in names:
            return True
        module, dot, _ = module.rpartition(".")
    return False
