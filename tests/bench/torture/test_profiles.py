"""Profiles have faults with names and meanings, and what is missing for one is said."""

import re
import shutil

import pytest

from tierlog.bench.__main__ import main
from tierlog.bench.harness.faults.disk import Failing
from tierlog.bench.harness.faults.disk_control import MILLION
from tierlog.bench.torture import profiles
from tierlog.bench.torture.command_line import PROFILES
from tierlog.tests.house_rules import ROOT


def test_the_profiles_of_the_command_line_are_those_that_there_are() -> None:
    assert profiles.NAMES == PROFILES


def test_a_profile_of_all_has_every_fault_once() -> None:
    every = profiles.faults_of(["all"])
    apart = [name for each in PROFILES[:-1] for name in profiles.faults_of([each])]
    assert sorted(every) == sorted(apart)
    assert len(every) >= 20


def test_every_fault_says_in_a_sentence_of_its_own_what_it_is() -> None:
    sentences = [fault.says for fault in profiles.faults_of(["all"]).values()]
    assert len(set(sentences)) == len(sentences)
    assert all(each.endswith(".") for each in sentences)


def test_the_list_and_the_page_give_the_share_of_calls_that_fail() -> None:
    page = (ROOT / "docs" / "torture.md").read_text().lower()
    words = {4: "four"}
    for fault in profiles.faults_of(["disk"]).values():
        if isinstance(fault.act, Failing) and fault.act.per_million < MILLION:
            number = MILLION // fault.act.per_million
            assert f" in {words.get(number, number)} " in fault.says
            assert re.search(rf"\| `.*{fault.name}.* in {words.get(number, number)}\b", page)


def test_the_page_of_documentation_names_every_fault() -> None:
    page = (ROOT / "docs" / "torture.md").read_text()
    assert [name for name in profiles.faults_of(["all"]) if f"`{name}`" not in page] == []


def test_what_a_machine_lacks_is_said_with_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(name: str) -> None: ...

    monkeypatch.setattr(shutil, "which", nothing)
    assert main(["torture", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "left out here" in listed
    assert "gcc" in listed


def test_kafka_has_no_store_that_could_fail() -> None:
    chosen = profiles.choose(["store", "process"], "kafka")
    assert set(chosen.missing) == set(profiles.faults_of(["store"]))
    assert {fault.name for fault in chosen.faults} == set(profiles.faults_of(["process"]))
    assert profiles.store_opener(["all"], "kafka") is None
    assert profiles.store_opener(["process"], "tierlog") is None


@pytest.mark.parametrize(
    ("arguments", "says_what"),
    [
        (["--profile", "fire"], "There is no profile 'fire'; there are process, network"),
        (["--minutes", "0"], "'0' is not a number of minutes"),
        (["--clients", "sarama"], "There is no client 'sarama'"),
        (["--seed", "-1"], "-1"),
        (["--brokers", "4"], "4"),
    ],
)
def test_a_wrong_option_is_answered_with_a_sentence(
    arguments: list[str], says_what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["torture", *arguments])
    assert ended.value.code == 2
    assert says_what in capsys.readouterr().err
