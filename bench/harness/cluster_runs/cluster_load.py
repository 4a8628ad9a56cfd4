"""Three nodes with three replicas, and steady producers whose every acknowledgement is kept.

Each client library has a topic of its own. Its producer is idempotent, waits for acks=all with
min.insync.replicas=2 and is never stopped while nodes are; at the end a consumer reads everything
once, and no acknowledged record may be lost, there twice or out of order.
"""

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ....clients.errors import ErrorCode
from ....clients.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ..checker.acknowledged import Acknowledged
from ..faults.chaos_cluster import NODES, PROPERTIES, REPLICAS
from ..loads.acknowledged.producers import JAVA, SteadyProducer, clients_here, producing
from ..loads.acknowledged.steady_producers import LIBRDKAFKA, Stated
from ..processes.cluster import Cluster, Kind, combined
from ..requests.admin import create_topic
from ..requests.probe import NotUpError
from ..requests.wire import Wire, WireError, partitions_at
from .durability import check_all
from .in_sync import InSyncWatch

PARTITIONS = 2 * NODES
"""Of each topic: every node leads two, once its leaders are at home."""

RATE = 300
"""Records a second of each client: one each 20 ms in each partition, as fine as gaps are seen."""

_RECORD_BYTES = 512
_IN_SYNC_WITHIN_S = 180.0
_BEGUN_WITHIN_S = 120.0
_AT_HOME_WITHIN_S = 120.0
_ASK_S = 5.0
_POLL_S = 0.05
_ELECT_VERSION = 2
_OWN_PROPERTIES = ("listener.security.protocol.map", "inter.broker.listener.name")

Place = tuple[str, int]
"""A topic and one of its partitions."""


class Leadership(NamedTuple):
    """Who leads a partition, and who should."""

    epoch: int
    leader: int
    preferred: int


def clients_of_a_load() -> list[str]:
    """The client libraries that produce here: librdkafka, and Java where there is one."""
    here = clients_here()
    return [name for name in (LIBRDKAFKA, JAVA) if name in here]


def longest_gap_s(times: Sequence[float], began: float, ended: float) -> float:
    """The longest time without an acknowledgement in a window, which itself begins with none.

    A gap that outlasts the window counts up to the next acknowledgement.
    """
    inside = sorted(at for at in times if at > began)
    moments = [began]
    for at in inside:
        moments.append(at)
        if at > ended:
            break
    else:
        moments.append(max(ended, moments[-1]))
    return max(after - before for before, after in pairwise(moments))


@dataclass(frozen=True, slots=True)
class ClientAnswers:
    """What each client was acknowledged, in its own topic."""

    topics: Mapping[str, str]
    acknowledged: Mapping[str, Acknowledged]

    def gaps_s(
        self, client: str, places: Iterable[Place], window: tuple[float, float]
    ) -> list[float]:
        """The longest gap of a client in a window of `time.time`, in each of its partitions of
        `places`."""
        answers = self.acknowledged[client].answers
        return [
            longest_gap_s([each.at for each in answers.get(at, {}).values()], *window)
            for topic, at in places
            if topic == self.topics[client]
        ]


class LoadedCluster:
    """A cluster that clients produce to; see the top of this file."""

    def __init__(
        self, cluster: Cluster, stated: Mapping[str, Stated], producers: Sequence[SteadyProducer]
    ) -> None:
        self.cluster = cluster
        self._stated = stated
        self._producers = producers
        self._watch = InSyncWatch(cluster, [each.topic for each in stated.values()])

    def wait_until_begun(self) -> None:
        """Wait until every client has an acknowledgement. Raises NotUpError."""
        _until(
            lambda: all(producer.has_begun() for producer in self._producers),
            _BEGUN_WITHIN_S,
            "some client was not acknowledged anything",
        )

    def wait_until_in_sync(self) -> None:
        """Wait until every replica is in sync. Raises NotUpError."""
        self._watch.wait_for_all(_IN_SYNC_WITHIN_S)

    def leaders(self) -> dict[Place, Leadership]:
        """Who leads what, by the newest leader epoch that any broker answers."""
        newest: dict[Place, Leadership] = {}
        for node in self.cluster.brokers:
            if not node.is_alive():
                continue
            for place, seen in _leaders(node.bootstrap, list(self._stated.values())).items():
                if place not in newest or seen.epoch >= newest[place].epoch:
                    newest[place] = seen
        return newest

    def led_by(self, node_id: int) -> list[Place]:
        """The partitions that a node leads."""
        return [place for place, seen in self.leaders().items() if seen.leader == node_id]

    def wait_until_led_by_others(self, node_id: int, timeout_s: float) -> None:
        """Wait until a node leads nothing any longer. Raises NotUpError."""

        def is_so() -> bool:
            seen = self.leaders()
            return len(seen) == self._places and all(
                leadership.leader not in (node_id, -1) for leadership in seen.values()
            )

        _until(is_so, timeout_s, f"node {node_id} still leads")

    def bring_leaders_home(self) -> None:
        """Have each partition led by its first replica, as an operator does after a restart.

        Raises NotUpError if it is not in time.
        """

        def is_so() -> bool:
            seen = self.leaders()
            if len(seen) == self._places and all(
                leadership.leader == leadership.preferred for leadership in seen.values()
            ):
                return True
            self._elect_preferred()
            return False

        _until(is_so, _AT_HOME_WITHIN_S, "some leaders are not at home")

    @property
    def _places(self) -> int:
        return sum(each.partitions for each in self._stated.values())

    def _elect_preferred(self) -> None:
        request = ElectLeadersRequest(topic_partitions=None, timeout_ms=int(_ASK_S * 1000))
        for node in self.cluster.brokers:
            try:
                with Wire(node.bootstrap, 2 * _ASK_S) as wire:
                    answer = wire.ask(request, _ELECT_VERSION, ElectLeadersResponse)
            except WireError:
                continue
            if answer.error_code == ErrorCode.NONE:
                return

    def acknowledged(self) -> ClientAnswers:
        """Stop the producers, and hold what they were answered against what is there, by client.

        Raises MeasurementError if something acknowledged is lost, doubled or out of order.
        """
        answers = {producer.name: producer.stop() for producer in self._producers}
        self.wait_until_in_sync()
        check_all(self._stated, answers)
        topics = {client: each.topic for client, each in self._stated.items()}
        return ClientAnswers(topics, answers)


def _leaders(bootstrap: str, stated: Sequence[Stated]) -> dict[Place, Leadership]:
    seen = partitions_at(bootstrap, [each.topic for each in stated], _ASK_S)
    return {
        place: Leadership(partition.leader_epoch, partition.leader_id, partition.replica_nodes[0])
        for place, partition in seen.items()
    }


def _until(is_so: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise NotUpError(f"Within {timeout_s:g} s: {otherwise}.")
        time.sleep(_POLL_S)


@contextmanager
def loaded_cluster(
    directory: Path,
    kind: Kind,
    properties: Mapping[str, str] | None = None,
    prepare: Callable[[Cluster], None] = lambda _: None,
) -> Generator[LoadedCluster, None, None]:
    """Three combined nodes, up and under load; `prepare` is called before their first start.

    Raises NotUpError.
    """
    kinds: list[Kind] = [kind] * NODES
    shared = {name: value for name, value in PROPERTIES.items() if name not in _OWN_PROPERTIES}
    cluster = Cluster(directory, combined(*kinds), {**shared, **(properties or {})})
    prepare(cluster)
    with cluster:
        cluster.wait_until_caught_up()
        stated: dict[str, Stated] = {}
        for client in clients_of_a_load():
            topic = f"load-{client}"
            create_topic(
                cluster.bootstrap, topic, partitions=PARTITIONS, replication_factor=REPLICAS
            )
            stated[client] = Stated(cluster.bootstrap, topic, PARTITIONS, RATE, _RECORD_BYTES)
        with producing(list(stated.items()), directory) as producers:
            loaded = LoadedCluster(cluster, stated, producers)
            loaded.wait_until_begun()
            yield loaded
