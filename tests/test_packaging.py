"""What `pip install tierlog` puts on a machine: the five layers and the bench, under one name."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import tierlog
from tierlog.bench.harness.requests.probe import free_port
from tierlog.tests.house_rules import ROOT, source_files

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


_DEVELOPERS = ("tests/", "bench/micro/", "docker/")


def test_the_wheel_is_named_after_the_version_in_the_package(wheel: Path) -> None:
    assert wheel.name == f"tierlog-{tierlog.__version__}-py3-none-any.whl"


def test_every_module_but_those_for_developers_is_in_the_wheel(wheel: Path) -> None:
    shipped = {name for name in ZipFile(wheel).namelist() if name.endswith(".py")}
    expected = {file.path for file in source_files() if not file.path.startswith(_DEVELOPERS)}
    assert shipped == {f"tierlog/{path}" for path in expected}


def test_what_is_no_module_but_needed_is_in_the_wheel_too(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    bench = {"reporting/report.html.jinja", "reporting/prices.example.toml"}
    bench.add("harness/processes/kafka/pom.xml")
    programs = "harness/loads/defaults"
    bench |= {f"{programs}/{name}" for name in ("c/load.c", "go/go.sum", "java/DefaultLoad.java")}
    bench |= {f"{programs}/node/{name}" for name in ("load.mjs", "package-lock.json")}
    page = {f"broker/status/page/{name}" for name in ("index.html", "status.js", "status.css")}
    assert {"tierlog/py.typed", *(f"tierlog/bench/{name}" for name in bench)} <= names
    assert {f"tierlog/{name}" for name in page} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_what_only_developers_read_is_not_in_the_wheel(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    assert "tierlog/bench/RESULTS.md" not in names
    assert not [name for name in names if name.startswith("tierlog/bench/results/")]
    assert not [name for name in names if name.startswith("tierlog/bench/micro/")]


# Whose versions say that something breaks. The others count years, quarters or patches.
_BOUNDED = frozenset(
    {
        *("confluent-kafka", "cramjam", "crc32c", "jinja2", "matplotlib", "moto"),
        *("msgpack", "numpy", "pandas", "paramiko", "pyspark", "requests", "rich"),
        *("hdrhistogram", "joserfc"),
    }
)


def test_the_next_major_version_of_a_dependency_is_not_taken_unseen() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for each in extras.values() for text in each)]
    requirements = [Requirement(text) for text in texts]
    for requirement in requirements:
        assert any(each.operator == ">=" for each in requirement.specifier), requirement
        is_bounded = any(each.operator == "<" for each in requirement.specifier)
        assert is_bounded == (requirement.name in _BOUNDED), requirement
    pinned = {
        Requirement(line).name.lower(): line.partition("==")[2]
        for line in (ROOT / "tests" / "constraints.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    }
    for requirement in requirements:
        if requirement.name in pinned:
            assert requirement.specifier.contains(pinned[requirement.name]), requirement


def test_the_wheel_brings_its_commands(wheel: Path) -> None:
    (name,) = (name for name in ZipFile(wheel).namelist() if name.endswith("/entry_points.txt"))
    commands = ZipFile(wheel).read(name).decode()
    assert "tierlog = tierlog.cli.__main__:main" in commands
    assert "tierlog-bench = tierlog.bench.__main__:main" in commands


def test_the_benchmark_lists_its_scenarios_from_where_it_is_installed(
    wheel: Path, tmp_path: Path
) -> None:
    ZipFile(wheel).extractall(tmp_path)
    answer = subprocess.run(
        [sys.executable, "-m", "tierlog.bench", "list"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "kip405_catch_up" in answer.stdout, answer.stderr


def test_the_wheel_runs_from_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    """Unpacked beside nothing else, it is importable and its command line answers."""
    ZipFile(wheel).extractall(tmp_path)
    program = "import sys, tierlog.cli.__main__ as m; sys.exit(m.main(['--version']))"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert tierlog.__version__ in answer.stdout, answer.stderr


def test_the_wheel_brings_a_broker_to_the_tests_of_a_project(wheel: Path, tmp_path: Path) -> None:
    """pytest loads the plugin by its entry point; a file of five lines is a whole test."""
    installed, project = tmp_path / "installed", tmp_path / "project"
    ZipFile(wheel).extractall(installed)
    project.mkdir()
    (project / "test_five_lines.py").write_text(
        "from confluent_kafka import Producer\n"
        "def test_it(tierlog_broker, tierlog_topic):\n"
        "    producer = Producer(tierlog_broker.config())\n"
        "    producer.produce(tierlog_topic, b'v')\n"
        "    assert producer.flush(60) == 0 and len(tierlog_broker.records(tierlog_topic)) == 1\n"
    )
    (project / "pytest.ini").write_text("[pytest]\n")
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "1 passed" in answer.stdout, answer.stdout + answer.stderr


README = ROOT / "README.md"
_INSTALL_S = 600.0
_READY_S = 60.0
_SMALL = re.compile(r"^ +pip install --no-deps tierlog (.+)$", re.MULTILINE)


def _ready_line(venv: Path, data: Path) -> str:
    """What a broker of a virtual environment says once it is ready, before it stops."""
    options = (f"--override=log.dirs={data}", "--override=listeners=PLAINTEXT://127.0.0.1:0")
    broker = subprocess.Popen(
        [str(venv / "bin" / "tierlog"), "serve", *options],
        cwd=venv,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        broker.terminate()
        assert broker.wait(_READY_S) == 0
    finally:
        broker.kill()
        broker.communicate()
    return line


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("is_small", [False, True], ids=["all that it needs", "without S3"])
def test_the_wheel_alone_is_a_broker_in_an_empty_environment(
    is_small: bool, wheel: Path, tmp_path: Path
) -> None:
    """Nothing is built from source; the smaller install is the command of docs/decisions/025."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=_INSTALL_S)
    words = [str(wheel)]
    if is_small:
        page = ROOT / "docs" / "decisions" / "025-s3-comes-with-the-broker.md"
        (rest,) = _SMALL.findall(page.read_text())
        words = ["--no-deps", str(wheel), *rest.split()]
    pip = (str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install")
    constraints = ("--constraint", str(ROOT / "tests" / "constraints.txt"))
    subprocess.run(
        [*pip, "--quiet", "--only-binary=:all:", *constraints, *words],
        check=True,
        timeout=_INSTALL_S,
    )
    assert f"tierlog {tierlog.__version__} ready on 127.0.0.1:" in _ready_line(venv, tmp_path / "d")
    if not is_small:
        extra = (f"{wheel}[testing]", "confluent-kafka", "pytest-xdist")
        subprocess.run(
            [*pip, "--quiet", "--only-binary=:all:", *constraints, *extra],
            check=True,
            timeout=_INSTALL_S,
        )
        assert "1 passed" in _first_tests(venv, tmp_path / "project")


def _first_tests(venv: Path, project: Path) -> str:
    """What pytest prints of README's file of tests, in a project that has nothing else."""
    (text,) = re.findall(r"```python\n# test_orders.py\n(.*?)```", README.read_text(), re.DOTALL)
    project.mkdir()
    (project / "test_orders.py").write_text(text)
    return subprocess.run(
        [str(venv / "bin" / "pytest"), "-q", "-n", "2"],
        cwd=project,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    ).stdout


def test_the_plain_install_brings_the_codecs_of_kafkas_clients(wheel: Path) -> None:
    """Nobody who starts a broker knows with which codec its clients will write."""
    (name,) = (name for name in ZipFile(wheel).namelist() if name.endswith("/METADATA"))
    lines = ZipFile(wheel).read(name).decode().splitlines()
    needed = [line for line in lines if line.startswith("Requires-Dist: cramjam")]
    assert needed, "The plain install lacks the codecs."
    assert any("extra ==" not in line for line in needed)


def test_no_extra_is_for_developers_alone(wheel: Path) -> None:
    (name,) = (name for name in ZipFile(wheel).namelist() if name.endswith("/METADATA"))
    lines = ZipFile(wheel).read(name).decode().splitlines()
    extras = {line.partition(": ")[2] for line in lines if line.startswith("Provides-Extra: ")}
    assert extras == {
        *("abfs", "arrow", "bench", "certificates", "cli", "gs", "oauth", "sftp", "spark"),
        *("testing", "webhdfs"),
    }
    assert not any("mypy" in line or "pytest-xdist" in line for line in lines)
    assert not any(line.startswith("Requires-Dist: tierlog") for line in lines)


def test_every_package_that_is_needed_is_imported(wheel: Path) -> None:
    """A dependency that no module imports is no dependency."""
    (name,) = (name for name in ZipFile(wheel).namelist() if name.endswith("/METADATA"))
    lines = ZipFile(wheel).read(name).decode().splitlines()
    needed = [Requirement(line[15:]) for line in lines if line.startswith("Requires-Dist: ")]
    plain = {each.name.replace("-", "_") for each in needed if each.marker is None}
    code = "\n".join(file.text for file in source_files() if file.is_code)
    imported = {
        name
        for name in plain
        if re.search(rf'(?:import |from |import_module\("){name}\b', code) is not None
    }
    # fsspec imports s3fs by the protocol of a URL.
    assert plain - imported <= {"s3fs"}


def test_a_start_does_not_wait_for_the_codecs() -> None:
    program = (
        "import sys, tierlog.broker.broker, tierlog.broker.handlers.produce;"
        "sys.exit('cramjam' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


_UV = "uv==0.13.8"


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_uvx_starts_a_broker_from_the_wheel_and_another_command_reaches_it(
    wheel: Path, tmp_path: Path
) -> None:
    """`uvx --from dist/tierlog-*.whl tierlog serve`; uv installs it, and builds nothing."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path)], check=True, timeout=_INSTALL_S)
    programs = tmp_path / "bin"
    install = (str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install")
    subprocess.run([*install, "--quiet", _UV], check=True, timeout=_INSTALL_S)
    environment = {
        **os.environ,
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_CONSTRAINT": str(ROOT / "tests" / "constraints.txt"),
        "UV_NO_BUILD": "1",
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
    }
    tierlog_of = (str(programs / "uvx"), "--from", str(wheel), "tierlog")
    address = f"127.0.0.1:{free_port()}"
    serve = ("serve", f"--override=listeners=PLAINTEXT://{address}")
    broker = subprocess.Popen(
        [*tierlog_of, *serve], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        assert line.startswith(f"tierlog {tierlog.__version__} ready on {address} in "), line
        ping = (*tierlog_of, "cluster", "ping", "--bootstrap", address)
        subprocess.run(ping, env=environment, check=True, timeout=_READY_S)
        broker.terminate()
        assert broker.wait(_READY_S) == 0
    finally:
        broker.kill()
        broker.communicate()
