"""All scenarios, in the order that they are run and reported in."""

import difflib
from collections.abc import Sequence

from ..scenario import Scenario
from .clusters.chaos import SCENARIO as CHAOS
from .clusters.chaos_transactions import SCENARIO as CHAOS_TRANSACTIONS
from .clusters.cluster_up import SCENARIO as CLUSTER_UP
from .clusters.cores import SCENARIO as CORES
from .clusters.failover import SCENARIO as FAILOVER
from .clusters.partition_kills import SCENARIO as PARTITION_KILLS
from .clusters.replicated import SCENARIO as REPLICATED
from .clusters.rolling import SCENARIO as ROLLING
from .clusters.sizing import SCENARIO as SIZING
from .clusters.three_nodes import SCENARIO as THREE_NODES
from .connections import SCENARIO as CONNECTIONS
from .counts import SCENARIO as COUNTS
from .defaults import SCENARIO as DEFAULTS
from .hostile import SCENARIO as HOSTILE
from .idle import SCENARIO as IDLE
from .latency import SCENARIO as LATENCY
from .partitions import SCENARIO as PARTITIONS
from .recovery import SCENARIO as RECOVERY
from .restarts import SCENARIO as RESTARTS
from .small_requests import SCENARIO as SMALL_REQUESTS
from .startup import SCENARIO as STARTUP
from .status_page import SCENARIO as STATUS_PAGE
from .throughput import SCENARIO as THROUGHPUT
from .tiered.copying import SCENARIO as COPYING
from .tiered.kip405_catch_up import SCENARIO as KIP405_CATCH_UP
from .tiered.kip405_normal import SCENARIO as KIP405_NORMAL
from .tiered.kip405_rebuild import SCENARIO as KIP405_REBUILD
from .tiered.remote_tier import SCENARIO as REMOTE_TIER
from .tiered.spark import SCENARIO as SPARK
from .tls import SCENARIO as TLS

SCENARIOS: tuple[Scenario, ...] = (
    STARTUP,
    IDLE,
    CONNECTIONS,
    PARTITIONS,
    RECOVERY,
    THROUGHPUT,
    SMALL_REQUESTS,
    LATENCY,
    KIP405_NORMAL,
    KIP405_CATCH_UP,
    KIP405_REBUILD,
    COPYING,
    REMOTE_TIER,
)
"""The scenarios that `tierlog-bench run` runs by default."""

ON_REQUEST: tuple[Scenario, ...] = (
    COUNTS,
    TLS,
    DEFAULTS,
    SPARK,
    HOSTILE,
    RESTARTS,
    FAILOVER,
    PARTITION_KILLS,
    ROLLING,
    THREE_NODES,
    CLUSTER_UP,
    REPLICATED,
    CORES,
    STATUS_PAGE,
    SIZING,
    CHAOS,
    CHAOS_TRANSACTIONS,
)
"""The scenarios that run only if named, because they take long or need extra software."""

ALL = (*SCENARIOS, *ON_REQUEST)


class UnknownScenarioError(Exception):
    """There is no scenario with this name."""


def scenarios_named(names: Sequence[str]) -> list[Scenario]:
    """The scenarios with these names, in the catalogue's order; if empty, the default ones."""
    scenario_by_name = {scenario.name: scenario for scenario in ALL}
    selection = [name.replace("-", "_") for name in names]
    for name in selection:
        if name not in scenario_by_name:
            near = difflib.get_close_matches(name, scenario_by_name, 1)
            hint = f"did you mean {near[0]}?" if near else "`tierlog-bench list` shows them all."
            raise UnknownScenarioError(f"There is no scenario {name!r}; {hint}")
    if not selection:
        return list(SCENARIOS)
    return [scenario for scenario in ALL if scenario.name in selection]
