"""The scenarios of tiered storage, and which tests tell them.

A test says `@pytest.mark.scenario("2.6")`. `make scenarios` writes `docs/tiering-scenarios.md` from
these marks; `test_scenario_page.py` sees that the page is current and that none is left untold.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tiering-scenarios.md"

_INTRODUCTION = """\
# Scenarios of tiered storage

What must hold of KIP-405 and its successors, and the tests that tell it. Written by
`make scenarios` from the marks of the tests; a test keeps this page up to date.
"""

SCENARIOS: Mapping[str, str] = {
    "2.1": "Offload and consume from the leader, also after a restart",
    "2.2": "Segments closed by their size and by their indexes",
    "2.3": "Checkpoints lost or damaged while the broker is down",
    "2.4": "The active segment is rolled and offloaded when local retention breaches it",
    "2.5": "Tiering enabled on an existing topic: what was closed before is copied",
    "2.6": "Segments deleted by retention size and by retention time",
    "2.7": "Segments deleted when the log start moves past them",
    "2.8": "A deleted topic leaves nothing in the tier",
    "2.9": "Copying switched off and on, then tiering disabled (KIP-950)",
    "2.10": "Offsets listed while data lies in both tiers",
    "2.11": "Records deleted within the remote range",
    "2.12": "Partitions added to a tiered topic",
    "2.13": "Transactions read from the tier",
    "2.14": "A tiered partition moves to another log directory",
    "2.15": "A leader anew serves everything from the log start on",
    "3.1": "KIP-405 scenario 1: a new empty follower",
    "3.2": "KIP-405 scenario 2: an out-of-sync follower",
    "3.3": "KIP-405 scenario 3: several hard failures",
    "3.4": "KIP-405 scenario 4: an unclean election with truncation",
    "3.5": "KIP-405 scenario 5: divergence in the remote storage",
    "3.6": "Where copying starts again when a follower becomes leader",
    "3.7": "Fetches outside the lineage, DeleteRecords, StopReplica",
    "4.1": "The highest remote offset on becoming leader",
    "4.2": "The log start offset on becoming leader",
    "4.3": "Which segments are candidates for copying",
    "4.4": "Which remote segments lie within the leader epochs",
    "4.5": "Which remote segments retention counts and deletes",
    "4.6": "Reads from remote segments",
    "4.7": "Copies that fail",
    "4.8": "The offset of a timestamp in the tier",
    "4.9": "The life of a segment's metadata",
    "4.10": "Local retention of a tiered log",
    "5": "A follower that builds its state from the tier",
    "5.1": "A follower behind the local log start",
    "5.2": "A follower behind the global log start",
    "5.3": "A follower that is fenced while it builds its state",
    "5.4": "A follower that is ahead of the remote metadata",
    "5.5": "Gaps in the leader epochs",
    "5.6": "When a follower is told that an offset has moved to the tier",
    "5.7": "A future replica below the local log start",
    "6": "Every special timestamp of ListOffsets",
    "7": "Configurations, and topics made and changed with them",
    "8.1": "Fetches that wait for the tier",
    "8.3": "The cache of remote indexes",
}


def marks_by_scenario(folder: Path) -> dict[str, list[str]]:
    """By scenario, the tests that carry its mark: `path::name`, sorted."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text()
        if ".scenario(" not in text:
            continue
        module = ast.parse(text)
        shared = [
            number
            for node in module.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
            for number in _numbers(node.value)
        ]
        for test in ast.walk(module):
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith(
                "test_"
            ):
                own = [each for decorator in test.decorator_list for each in _numbers(decorator)]
                for number in {*own, *shared}:
                    found[number].append(
                        f"{path.relative_to(folder.parent).as_posix()}::{test.name}"
                    )
    return found


def _numbers(node: ast.expr) -> Iterator[str]:
    """The scenarios that are named in an expression, such as `pytest.mark.scenario("2.1")`."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.scenario":
            yield from (str(each.value) for each in call.args if isinstance(each, ast.Constant))


def page() -> str:
    """The page in whole."""
    tests = marks_by_scenario(ROOT / "tests")
    parts = [_INTRODUCTION]
    for number, title in SCENARIOS.items():
        lines = [f"- `{test}`" for test in tests.get(number, ())]
        parts.append("\n".join([f"## {number} {title}", "", *lines]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
