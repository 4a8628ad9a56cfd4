"""The profiles of a torture run: which faults each has, and what is missing for them here."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..harness.faults.clock import CLOCK_FAULTS
from ..harness.faults.damage import DAMAGE_FAULTS
from ..harness.faults.disk import DISK_FAULTS
from ..harness.faults.fault import Fault, Store
from ..harness.faults.images import IMAGE_FAULTS
from ..harness.faults.network import NETWORK_FAULTS
from ..harness.faults.signals import PROCESS_FAULTS
from ..harness.faults.store import STORE_FAULTS, TroubledStore
from ..harness.processes.cluster import Kind

ALL = "all"
STORE = "store"
_PROFILES: Mapping[str, Sequence[Fault]] = {
    "process": PROCESS_FAULTS,
    "network": NETWORK_FAULTS,
    "disk": DISK_FAULTS,
    "clock": CLOCK_FAULTS,
    STORE: STORE_FAULTS,
    "damage": (*DAMAGE_FAULTS, *IMAGE_FAULTS),
}
NAMES = (*_PROFILES, ALL)
"""Of all profiles."""

_NO_STORE = "Apache Kafka brings no remote tier on S3, so its store cannot fail."


class Chosen(NamedTuple):
    """The faults that can be done, and why others of the profiles cannot."""

    faults: Sequence[Fault]
    missing: Mapping[str, str]


def faults_of(profiles: Sequence[str]) -> dict[str, Fault]:
    """The faults of these profiles, by name."""
    names = _PROFILES if ALL in profiles else profiles
    return {fault.name: fault for name in names for fault in _PROFILES[name]}


def profile_of(name: str) -> str:
    """The profile of the fault of that name."""
    return next(
        profile
        for profile, faults in _PROFILES.items()
        if any(fault.name == name for fault in faults)
    )


def store_opener(profiles: Sequence[str], kind: Kind) -> Callable[[Path], Store] | None:
    """What starts the store of a remote tier for these profiles; None if they need none."""
    has_store = kind == "tierlog" and (STORE in profiles or ALL in profiles)
    return TroubledStore if has_store else None


def choose(profiles: Sequence[str], kind: Kind) -> Chosen:
    """The faults of these profiles that this machine can do to a cluster of that kind."""
    faults, missing = list[Fault](), dict[str, str]()
    for name, fault in faults_of(profiles).items():
        why = _NO_STORE if kind == "kafka" and profile_of(name) == STORE else fault.missing()
        if why is None:
            faults.append(fault)
        else:
            missing[name] = why
    return Chosen(faults, missing)
