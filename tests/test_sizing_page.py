"""docs/sizing.md word by word: its commands print what it shows, its files are those of members."""

import re
from random import Random

from tierlog.broker.config.config import read_config
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.properties import parse_properties
from tierlog.replication.control.topics.placement import place_replicas
from tierlog.replication.metadata.cluster_image import BrokerImage
from tierlog.tests import sizing_page
from tierlog.tests.sizing_page import with_outputs

PAGE = sizing_page.PAGE.read_text()


def test_the_commands_of_the_page_print_what_it_shows() -> None:
    assert len(re.findall(r"^    tierlog-bench size ", PAGE, re.MULTILINE)) == 2
    assert with_outputs(PAGE) == PAGE, "`python -m tierlog.tests.sizing_page` writes it anew"


def test_a_page_with_another_output_is_written_anew() -> None:
    other = PAGE.replace("    memory   ", "    mammoths ")
    assert other != PAGE
    assert with_outputs(other) == PAGE


def files() -> list[dict[str, str]]:
    """The properties files of the page."""
    texts = re.findall(r"`machine-[abc]-\d\.properties`:\n\n((?:    .*\n)+)", PAGE)
    return [parse_properties(text) for text in texts]


def test_the_files_of_the_page_are_those_of_members() -> None:
    both, broker_only = files()
    assert read_config(both).is_member
    assert read_config(broker_only).is_member
    assert both["broker.rack"] == broker_only["broker.rack"]
    assert both["log.dirs"] != broker_only["log.dirs"]


def test_with_the_machine_as_rack_no_two_replicas_are_on_one_machine() -> None:
    machines = ("machine-a", "machine-b", "machine-c")
    racks = {first + number: rack for number, rack in enumerate(machines, 1) for first in (0, 10)}
    brokers = {
        broker_id: BrokerImage(broker_id, 0, ZERO_UUID, {}, rack, fenced=False)
        for broker_id, rack in racks.items()
    }
    for seed in range(20):
        for replicas in place_replicas(brokers, 50, 3, Random(seed)):
            assert {racks[each] for each in replicas} == set(machines)
