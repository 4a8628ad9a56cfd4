"""Formats machine.json for people: the machine, the versions, the options.

Everything in the file is shown; only the list of refusals is interpreted.
"""

from collections.abc import Iterator, Mapping
from typing import cast

_REFUSED = "refused"


def facts_of(machine: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """The facts as (label, value) lines, whatever their structure."""
    facts: list[tuple[str, str]] = []
    for name, value in machine.items():
        if name == _REFUSED:
            continue
        label = f"{prefix}{name.replace('_', ' ')}"
        if isinstance(value, Mapping):
            facts += facts_of(cast("Mapping[str, object]", value), f"{label}: ")
        elif isinstance(value, list):
            listed = cast("list[object]", value)
            facts.append((label, ", ".join(str(each) for each in listed) or "–"))
        elif value is not None:
            facts.append((label, f"{value:,.1f}" if isinstance(value, float) else str(value)))
    return facts


def refused_of(machine: Mapping[str, object]) -> Iterator[str]:
    """The cases that were not measured, with each reason once per target and scenario."""
    refused = machine.get(_REFUSED)
    if not isinstance(refused, list):
        return
    cases: dict[tuple[str, str, str], list[str]] = {}
    for each in cast("list[object]", refused):
        if isinstance(each, Mapping):
            facts = cast("Mapping[str, object]", each)
            target, scenario, case, reason = (
                str(facts.get(name, "")) for name in ("target", "scenario", "case", "reason")
            )
            cases.setdefault((target, scenario, reason), []).append(case)
    for (target, scenario, reason), case_names in cases.items():
        count = len(dict.fromkeys(case_names))
        which = case_names[0] if count == 1 else f"{count} cases"
        yield f"{target}, {scenario} ({which}): {reason}"


def report_title(machine: Mapping[str, object]) -> str:
    """The report's title: targets, scale and date, as far as the file has them."""
    facts = dict(facts_of(machine))
    words = [facts.get("options: targets", ""), facts.get("options: scale", "")]
    words.append(facts.get("started", "").partition("T")[0])
    description = ", ".join(word for word in words if word)
    return f"tierlog-bench: {description}" if description else "tierlog-bench"


_VERSIONS = "versions: "
_DETAILS = ("plans: ", "took seconds: ", "options: scenarios")


def main_facts(machine: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The main facts: the machine, all versions in one line, the options."""
    versions: list[str] = []
    for name, value in facts_of(machine):
        if name.startswith(_VERSIONS):
            versions.append(f"{name.removeprefix(_VERSIONS)} {value}")
        elif not name.startswith(_DETAILS):
            yield name, value
    if versions:
        yield "versions", ", ".join(versions)


def detailed_facts(machine: Mapping[str, object]) -> list[tuple[str, str]]:
    """The other facts: the plan of each scenario, and how long it took."""
    return [fact for fact in facts_of(machine) if fact[0].startswith(_DETAILS)]
