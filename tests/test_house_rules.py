"""The house rules hold, and each of them would catch the one who breaks it."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tierlog.tests.house_rules import (
    FILE_LINES_P90_MAX,
    PUBLIC_METHODS_CEILINGS,
    ROOT,
    RULES,
    Offences,
    SourceFile,
    percentile_90,
    source_files,
)

Rule = Callable[[SourceFile], Offences]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    offences = [
        f"{file.path}:{line}: {sentence}"
        for file in source_files()
        for line, sentence in rule(file)
    ]
    assert not offences, f"{rule.__doc__}\n" + "\n".join(offences)


def test_nine_product_files_of_ten_are_small() -> None:
    lines = [len(file.text.splitlines()) for file in source_files() if file.is_code]
    assert percentile_90(lines) <= FILE_LINES_P90_MAX


def test_the_percentile_is_the_length_that_nine_files_of_ten_keep() -> None:
    assert percentile_90([100] * 9 + [700]) == 100
    assert percentile_90([100] * 8 + [400, 700]) == 400
    assert percentile_90([5]) == 5


def test_every_exception_to_a_rule_names_what_is_there() -> None:
    classes = {
        f"{file.path}:{node.name}"
        for file in source_files()
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ClassDef)
    }
    assert classes >= PUBLIC_METHODS_CEILINGS.keys()


MODULE = '"""A module that says what it is."""\n'

MANY_METHODS = "class Log:\n" + "".join(f"    def act_{n}(self): ...\n" for n in range(26))

# rule, path, what the file says, what the offence must mention
SAMPLES = [
    ("file_is_small", "storage/x.py", MODULE + "x = 1\n" * 700, "701 lines"),
    ("functions_are_small", "storage/x.py", "def f():\n" + "    x = 1\n" * 70, "71 lines"),
    ("functions_are_small", "tests/x.py", "async def f():\n" + "    x = 1\n" * 70, "71 lines"),
    ("arguments_are_few", "storage/x.py", "def f(a, b, c, d, *, e, f, g, h): ...", "8 arguments"),
    ("classes_are_small", "storage/x.py", MANY_METHODS, "Log has 26 public methods"),
    (
        "classes_are_small",
        "storage/manager/log_manager.py",
        MANY_METHODS.replace("Log:", "LogManager:") + "    def one_more(self): ...\n",
        "LogManager has 27 public methods",
    ),
    (
        "classes_are_small",
        "storage/manager/log_manager.py",
        "class LogManager:\n    def roll(self): ...\n",
        "lower its ceiling",
    ),
    ("tests_share_by_name", "tests/storage/test_x.py", "from .test_y import f", "test_y"),
    ("tests_share_by_name", "tests/storage/x.py", "from . import test_y", "test_y"),
    ("tests_share_by_name", "bench/x.py", "import tierlog.tests.storage.test_y", "test_y"),
    ("package_files_are_empty", "storage/__init__.py", "from .log import Log", "empty"),
    ("names_say_something", "storage/log_utils.py", "", "log_utils"),
    ("names_say_something", "broker/common/x.py", "", "common"),
    ("theory_and_docstrings", "tests/x.py", "x = 1", "the module"),
    ("theory_and_docstrings", "storage/x.py", MODULE + "class Log: ...", "Log is public"),
    ("theory_and_docstrings", "storage/x.py", MODULE + "def roll(): ...", "roll is public"),
    ("nothing_is_swallowed", "storage/x.py", "try:\n    f()\nexcept:\n    raise", "bare"),
    (
        "nothing_is_swallowed",
        "storage/x.py",
        "try:\n    f()\nexcept Exception:\n    ...",
        "swallow",
    ),
    (
        "nothing_is_swallowed",
        "broker/x.py",
        "for x in y:\n    try:\n        f()\n    except (A, BaseException):\n        continue",
        "swallow",
    ),
    ("ignores_have_code_and_reason", "storage/x.py", "x = f()  # type: ignore", "without the code"),
    ("ignores_have_code_and_reason", "storage/x.py", "x = f()  # type: ignore[misc]", "reason"),
    ("ignores_have_code_and_reason", "storage/x.py", "x = f()  # noqa: E501", "reason"),
    ("doors_are_kept", "replication/x.py", "import time\nnow = time.time()", "wall_clock_ms"),
    ("doors_are_kept", "replication/x.py", "from time import monotonic", "wall_clock_ms"),
    ("doors_are_kept", "broker/x.py", "import time as t\nf(clock=t.monotonic)", "wall_clock_ms"),
    ("doors_are_kept", "broker/x.py", "import random\nrandom.shuffle(x)", "Environment.random"),
    ("doors_are_kept", "broker/x.py", "import random\nr = random.Random()", "Environment.random"),
    ("doors_are_kept", "broker/x.py", "from uuid import uuid4", "random_uuid"),
    ("doors_are_kept", "tiering/x.py", "with open(path) as f: ...", "storage/files.py"),
    ("doors_are_kept", "storage/log.py", "import os\nos.fsync(fd)", "storage/files.py"),
    ("doors_are_kept", "storage/log.py", "import os\nos.path.exists(p)", "storage/files.py"),
    ("doors_are_kept", "tiering/x.py", "from pathlib import Path", "storage/files.py"),
    ("doors_are_kept", "broker/x.py", "import threading", "executors"),
    ("doors_are_kept", "broker/x.py", "await loop.run_in_executor(None, f)", "executors"),
    ("doors_are_kept", "broker/x.py", "import socket", "transport"),
    ("doors_are_kept", "broker/x.py", "import asyncio\nasyncio.create_task(f())", "TaskGroup"),
    (
        "groups_raise_outside",
        "storage/x.py",
        "try:\n    f()\nexcept* OSError as errors:\n    raise errors.exceptions[0]\n",
        "catch the ExceptionGroup",
    ),
    ("doors_are_kept", "broker/x.py", "self._loop.create_task(f())", "TaskGroup"),
    ("doors_are_kept", "tiering/x.py", "import pickle", "msgpack"),
    ("doors_are_kept", "clients/x.py", "exec(source)", "plain code"),
    ("doors_are_kept", "broker/x.py", "import os\nos.memfd_create('x')", "not every system"),
    ("doors_are_kept", "broker/x.py", "import os\nhasattr(os, 'eventfd')", "not every system"),
    ("doors_are_kept", "tiering/x.py", "import errno\nx = errno.EREMOTEIO", "not every system"),
    ("doors_are_kept", "broker/x.py", "x = '/proc/self/fd'", "not every system"),
    ("doors_are_kept", "clients/x.py", "import sys\nx = sys.platform", "not every system"),
    ("doors_are_kept", "tests/x.py", "import time\ntime.sleep(1)", "condition"),
    ("doors_are_kept", "tests/x.py", "from unittest.mock import Mock", "simulat"),
    ("doors_are_kept", "tests/x.py", "import pytest\n@pytest.mark.skip\ndef f(): ...", "requires"),
]


@pytest.mark.parametrize(("name", "path", "text", "mention"), SAMPLES)
def test_the_rule_catches_a_bad_sample(name: str, path: str, text: str, mention: str) -> None:
    rule = next(rule for rule in RULES if rule.__name__ == name)
    sentences = [sentence for _, sentence in rule(SourceFile(path, text))]
    assert any(mention in sentence for sentence in sentences), sentences


def test_every_rule_has_a_bad_sample() -> None:
    assert {rule.__name__ for rule in RULES} == {sample[0] for sample in SAMPLES}


@pytest.mark.parametrize(
    "text",
    [
        "x = f()  # type: ignore[misc]  # f is typed wrongly upstream",
        "x = f()  # noqa: E501, B008 (a constant)",
        "# f is typed wrongly upstream.\nx = f()  # pyright: ignore[reportUnknownMemberType]",
        "x = 'a # noqa in a string'",
    ],
)
def test_an_ignore_with_code_and_reason_may_stand(text: str) -> None:
    rule = next(rule for rule in RULES if rule.__name__ == "ignores_have_code_and_reason")
    assert not list(rule(SourceFile("storage/x.py", text)))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("clients/runtime/environment.py", "import time\nnow = time.time_ns()"),
        ("storage/files.py", "import os\nos.fsync(3)\nopen('x')"),
        ("clients/protocol/source.py", "exec('pass')"),
        ("broker/x.py", "import random\ndef f(chance: random.Random) -> None: ..."),
        ("broker/x.py", "async def f(group):\n    group.create_task(g())"),
        ("broker/x.py", "def f(log):\n    log.open()\n    log.time()"),
        ("bench/x.py", "import time\ntime.sleep(1)"),
    ],
)
def test_the_door_itself_is_open_and_its_namesakes_are_free(path: str, text: str) -> None:
    rule = next(rule for rule in RULES if rule.__name__ == "doors_are_kept")
    assert not list(rule(SourceFile(path, text)))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("ERA001", "x = 1\n# y = f(x)\n"),
        ("FIXME", "x = 1  # TODO: later\n"),
        ("E501", "x = 1  # " + "long " * 30 + "\n"),
        ("C901", "def f(x: int) -> None:\n" + "    if x:\n        f(1)\n" * 11),
        ("ANN201", "def f():\n    return 1\n"),
        ("RUF006", "import asyncio\n\n\nasync def f() -> None:\n    asyncio.create_task(f())\n"),
    ],
)
def test_ruff_is_configured_to_catch(rule: str, text: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise"]
    path = ["--stdin-filename", "storage/sample.py", "-"]
    answer = subprocess.run(
        command + path,
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    # FIX's rules are numbered by the word they look for.
    assert {"FIXME": "FIX002"}.get(rule, rule) in answer.stdout, answer.stdout + answer.stderr


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of the tree at `root`."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": ".namespace"},
        timeout=120,
        check=False,
    )


def test_dependencies_fall() -> None:
    answer = lint_imports(ROOT)
    assert answer.returncode == 0, answer.stdout


FOR_TYPES = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    "
DOWN = "dependencies point down the tree"
CORES = "no event loop, socket, clock, chance or object store in the cores"
PLANTED = [
    # A file, what is planted in it, the contract that this breaks, what the report says there.
    ("storage/files.py", "from ..tiering import config\n", DOWN, "tierlog.tiering.config"),
    ("storage/files.py", "import asyncio\n", CORES, "asyncio"),
    ("clients/record/batch.py", "import time\n", CORES, "time"),
    ("tiering/config.py", "import mmap\n", "one door to the disk", "mmap"),
    ("broker/broker.py", "from ..bench import x\n", "nothing imports the bench", "tierlog.bench"),
    ("tiering/config.py", "from ..pipeline import extra\n", DOWN, "tierlog.pipeline.extra"),
    ("pipeline/extra.py", "from ..broker import broker\n", DOWN, "tierlog.broker.broker"),
    ("broker/broker.py", "from ..pipeline import extra\n", DOWN, "tierlog.pipeline.extra"),
    ("clients/errors.py", "from ..tiering import config\n", DOWN, "tierlog.tiering.config"),
    (
        "storage/segment/index.py",
        "from ..log import unified_log\n",
        "the rooms of storage",
        "tierlog.storage.log.unified_log",
    ),
    (
        "replication/metadata/metadata_log.py",
        "from ..leader import x\n",
        "the rooms of replication",
        "tierlog.replication.leader",
    ),
    (
        "broker/network/turns.py",
        "from ..dispatch import apis\n",
        "the rooms of the broker",
        "tierlog.broker.dispatch.apis",
    ),
]
CYCLES = {
    # Two rooms, one of which needs only the other's types.
    "coordinator/group/group_shard.py": "from ..classic import classic_group\n",
    "coordinator/classic/classic_group.py": FOR_TYPES + "from ..group import group_shard\n",
    # Two files of one room.
    "replication/partition/isr.py": "from . import replica\n",
    "replication/partition/replica.py": "from . import isr\n",
}
IN_NO_ROOM = "tiering/attic.py"


@pytest.fixture(scope="module")
def broken_contracts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The report on a tree with all that is planted: its text by contract."""
    texts = {**CYCLES, IN_NO_ROOM: '"""In no room."""\n'}
    for path, text, *_ in PLANTED:
        texts[path] = texts.get(path, "") + text
    answer = lint_imports(bare_tree(tmp_path_factory.mktemp("planted"), texts))
    assert answer.returncode == 1
    _, report = answer.stdout.split("Broken contracts\n")
    title = re.compile(r"^(\S.*)\n-{5,}\n", re.MULTILINE)
    _, *parts = title.split(report)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def section(broken_contracts: dict[str, str], contract: str) -> str:
    """The report on the contract whose name begins so, its lines joined."""
    (found,) = (text for name, text in broken_contracts.items() if name.startswith(contract))
    return " ".join(found.split())


@pytest.mark.parametrize(
    ("path", "contract", "imported"), [(path, *rest) for path, _, *rest in PLANTED]
)
def test_an_import_that_climbs_or_leaks_is_caught(
    broken_contracts: dict[str, str], path: str, contract: str, imported: str
) -> None:
    importer = "tierlog." + path.removesuffix(".py").replace("/", ".")
    assert f"{importer} -> {imported} (l." in section(broken_contracts, contract)


def test_a_file_in_no_room_is_caught(broken_contracts: dict[str, str]) -> None:
    assert "not listed as layers: - tierlog.tiering.attic" in section(
        broken_contracts, "the rooms of tiering"
    )


@pytest.mark.parametrize("place", ["tierlog.coordinator", "tierlog.replication.partition"])
def test_a_cycle_is_caught_though_one_import_is_for_types_only(
    broken_contracts: dict[str, str], place: str
) -> None:
    assert f"No cycles are allowed in {place}." in section(broken_contracts, "no cycles")


def bare_tree(root: Path, texts: dict[str, str]) -> Path:
    """The tree as it is, every file empty but those that `texts` gives; returns `root`."""
    for file in source_files():
        copy = root / file.path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.touch()
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / ".namespace").mkdir()
    (root / ".namespace" / "tierlog").symlink_to("..")
    for path, text in texts.items():
        (root / path).write_text(text)
    return root
