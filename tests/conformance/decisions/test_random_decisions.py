"""Random entries, clients and requests: Apache Kafka and ours give the same answers.

Each seed draws some sets of access control entries, and with each set one request of every API and
version, from a client that is drawn, too. Whatever the client may do, nothing it does makes the two
sides differ: requests change nothing, or what both change alike. More of it:

    pytest -m long --seeds 0-10 tests/conformance/decisions
"""

import re
from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import NamedTuple

import pytest

from tierlog.clients.protocol.api import (
    SERVED,
    SERVED_ON,
    Api,
    ApiKey,
    ListenerKind,
    served_by_member,
)

from ..side_by_side import Plain, differences
from .draw import RECIPES, Draw, Recipe, Values, made
from .entries import NODES_ENTRY, Entry, random_entries
from .sides import CLIENTS, NO_NAME, Client, Side, both_sides

pytestmark = [
    pytest.mark.requires("java", "mvn"),
    pytest.mark.long,
    pytest.mark.timeout(1800),
]

# Importing them fills the table.
for module in ("requests_of_data", "requests_of_groups", "requests_of_the_cluster"):
    import_module(f"{__package__}.{module}")


class Setting(NamedTuple):
    """Who may use what no entry covers, and whether requests have to be forwarded."""

    is_for_everybody: bool
    is_apart: bool

    def properties(self) -> dict[str, str]:
        if self.is_for_everybody:
            # A cluster without an entry must let its own nodes in.
            return {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
        return {"super.users": "User:admin;User:ANONYMOUS"}


SETTINGS = {
    "everybody": Setting(is_for_everybody=True, is_apart=False),
    "nobody": Setting(is_for_everybody=False, is_apart=False),
    "forwarded": Setting(is_for_everybody=True, is_apart=True),
}

SETS_OF_A_SEED = 2
_SHOWN_MAX = 60
DENIALS = frozenset({29, 30, 31, 53})
NOT_THE_AUTHORIZERS = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""Open to everybody, and not answered by a Kafka without plugins."""

PRODUCE_IN_NAME_ONLY = range(3)


class Asked(NamedTuple):
    """A version of an API on a kind of listener."""

    api: Api
    version: int
    kind: ListenerKind

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} at a {self.kind.name.lower()}"


def everything() -> list[Asked]:
    """Every version that is announced to clients; deletions, which both must apply, come last."""
    asked = [
        Asked(api, version, kind)
        for kind, apis in ((ListenerKind.BROKER, SERVED), (ListenerKind.CONTROLLER, CONTROLLERS))
        for api in apis.values()
        for version in range(api.lowest_version, api.highest_version + 1)
        if api.key not in NOT_THE_AUTHORIZERS
        and not (api.key == ApiKey.PRODUCE and version in PRODUCE_IN_NAME_ONLY)
    ]
    return sorted(asked, key=lambda each: each.api.key == ApiKey.DELETE_TOPICS)


CONTROLLERS = SERVED_ON[ListenerKind.CONTROLLER]


_PRINTED_OBJECT = re.compile(r"Request Request\(.*\) needs [A-Z_]+ permission\.", re.DOTALL)
"""Where Kafka puts its own object of the request into the sentence, with addresses of memory."""

_IN_ITS_PLACE = "Cluster authorization failed."


def comparable(answer: Plain) -> Plain:
    """An answer without the order of lists, and with those sentences alone that deny."""
    if isinstance(answer, str):
        return _PRINTED_OBJECT.sub(_IN_ITS_PLACE, answer)
    if isinstance(answer, dict):
        codes = [value for name, value in answer.items() if name.endswith("error_code")]
        return {
            name: comparable(value)
            for name, value in answer.items()
            if name != "error_message" or any(code in DENIALS for code in codes)
        }
    if isinstance(answer, list):
        return sorted(map(comparable, answer), key=repr)
    return answer


class Comparison:
    """Asks both sides, and keeps where they differ."""

    def __init__(self, kafka: Side, ours: Side) -> None:
        self._sides = kafka, ours
        self._entries: set[Entry] = set()
        self.pairs = 0
        self.denied = 0
        self.offences: dict[str, str] = {}
        """An example of each kind of difference."""

    def apply(self, entries: set[Entry]) -> None:
        for side in self._sides:
            side.restore()
            side.change(self._entries, entries)
        self._entries = entries

    def ask(self, random: Random, asked: Asked) -> None:
        recipe = RECIPES[ApiKey(asked.api.key)]
        client = random.choice([each for each in CLIENTS if _may_send(each, asked, recipe)])
        values = recipe.draw(Draw(random, asked.version))
        self.compare(asked, client, values, recipe.ignoring)

    def compare(
        self, asked: Asked, client: Client, values: Values, ignored: frozenset[str] = frozenset()
    ) -> None:
        """Send the request of one client to both."""
        for side in self._sides:
            message = made(ApiKey(asked.api.key), asked.version, values, side.own)
            side.send(client, message, asked.version)
        kafka, ours = (comparable(side.receive(client, ignored)) for side in self._sides)
        self.pairs += 1
        self.denied += any(f"error_code': {each}" in repr(kafka) for each in DENIALS)
        for line in differences(kafka, ours):
            of_its_kind = f"{asked.api.name} {re.sub('[0-9]+', 'N', line)}"
            self.offences.setdefault(of_its_kind, f"{asked}: {line}\n    {client}, {values}")


def _may_send(client: Client, asked: Asked, recipe: Recipe) -> bool:
    return client.kind is asked.kind and not (recipe.is_of_plain_text and client.user != NO_NAME)


@pytest.fixture(scope="module", params=SETTINGS)
def comparison(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Comparison]:
    directory = tmp_path_factory.mktemp("decisions")
    setting = SETTINGS[str(request.param)]
    with both_sides(directory, setting.properties(), is_apart=setting.is_apart) as sides:
        yield Comparison(*sides)


def test_every_api_has_a_recipe() -> None:
    assert {each.api.key for each in everything()} == set(RECIPES)


@pytest.mark.parametrize("comparison", ["forwarded"], indirect=True)
def test_what_nodes_alone_may_ask_is_refused_alike(comparison: Comparison) -> None:
    """A controller apart, whose listener a client can reach."""
    comparison.apply({NODES_ENTRY})
    comparison.offences.clear()
    stranger = Client(NO_NAME, "127.0.0.2", ListenerKind.CONTROLLER)
    of_nodes = served_by_member(ListenerKind.CONTROLLER)
    for key in of_nodes.keys() - CONTROLLERS.keys():
        api = of_nodes[key]
        for version in range(api.lowest_version, api.highest_version + 1):
            comparison.compare(Asked(api, version, ListenerKind.CONTROLLER), stranger, {})
    assert not comparison.offences, "\n".join(comparison.offences.values())


@pytest.mark.seeds("0-2")
def test_both_answer_alike(comparison: Comparison, simulation_seed: int) -> None:
    random = Random(simulation_seed)
    comparison.offences.clear()
    before = comparison.pairs, comparison.denied
    for _ in range(SETS_OF_A_SEED):
        comparison.apply(random_entries(random))
        for asked in everything():
            comparison.ask(random, asked)
    pairs, denied = comparison.pairs - before[0], comparison.denied - before[1]
    print(f"seed {simulation_seed}: {pairs} pairs, {denied} of them with a denial")
    shown = list(comparison.offences.values())
    assert not shown, f"seed {simulation_seed}:\n" + "\n".join(shown[:_SHOWN_MAX])
    assert 0 < denied < pairs
