"""Runs of pytest with the plugin, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from tierlog.tests.house_rules import ROOT

PLUGINS = ("xdist.plugin", "tierlog.testing.pytest_plugin")
RUN_WITHIN_S = 1_000
"""A run takes seconds of the processor, which a machine that is busy with other things, such as the
installs of other tests, may spread over minutes; what hangs is ended at last."""


def run(
    project: Path, *options: str, address: str = "", packages: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run the tests of a project as its developer does; `packages` come before those installed."""
    path = [str(each) for each in (packages, ROOT / ".namespace") if each is not None]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    environment.pop("KAFKA_BOOTSTRAP_SERVERS", None)
    environment.pop("PYTEST_XDIST_WORKER", None)
    if address:
        environment["KAFKA_BOOTSTRAP_SERVERS"] = address
    plugins = [word for plugin in PLUGINS for word in ("-p", plugin)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-markers", *plugins, *options],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
    )
