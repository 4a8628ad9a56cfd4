"""What can happen to a simulated cluster. Each fault tells whether it could strike."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tierlog.tests.simulation.cluster_member import CONTROLLER_PORT, Member
from tierlog.tests.simulation.cluster_network import Link
from tierlog.tests.simulation.disk import UNLIMITED_BYTES, Fault as DiskFault, Kind, Survival
from tierlog.tests.simulation.network import on_host
from tierlog.tests.simulation.object_store import Fault as StoreFault, Weather

if TYPE_CHECKING:
    from .cluster_story import ClusterStory

CLIENT = "client"
LOOK_EVERY_S = 0.02


def _kill(story: "ClusterStory", member: Member) -> bool:
    """`kill -9`: the page cache stays."""
    if not member.is_running or story.is_careful:
        return False
    story.end(member, Survival.EVERYTHING)
    return True


def _kill_two(story: "ClusterStory", member: Member) -> bool:
    """Two brokers at once: the quorum is gone, too."""
    others = [each for each in story.members if each is not member and each.is_running]
    if not member.is_running or not others or story.is_careful:
        return False
    story.end(member, Survival.EVERYTHING)
    story.end(story.chance.choice(others), Survival.EVERYTHING)
    return True


def _miss_much(story: "ClusterStory", member: Member) -> bool:
    """`kill -9`, and no other life until the others have moved much to the tier."""
    if not member.is_running or story.is_careful:
        return False
    story.end(member, Survival.EVERYTHING, absent_s=story.chance.uniform(4, 8))
    return True


def _kill_last(story: "ClusterStory", _: Member) -> bool:
    """Who is alone in an ISR within the next seconds is killed before others have caught up."""
    until = story.loop.time() + 4

    def look() -> None:
        alone = {each.isr[0] for _, each in story.truth.partitions() if len(each.isr) == 1}
        for member in story.members:
            if member.id in alone and member.is_running and not story.is_careful:
                story.end(member, Survival.EVERYTHING)
                return
        if story.loop.time() < until and story.is_chaotic:
            story.loop.call_later(LOOK_EVERY_S, look)

    look()
    return True


def _cut_power(story: "ClusterStory", member: Member) -> bool:
    """What was not synced is lost, in part or whole."""
    if not member.is_running or not story.may_lose_power():
        return False
    story.end(member, Survival.BY_CHANCE)
    story.guard_after_loss(member)
    if story.plan.is_synced and story.chance.random() < 0.6:
        # The whole room: only what was synced is left.
        for other in story.members:
            if other.is_running:
                story.end(other, Survival.BY_CHANCE)
    return True


def _stop(story: "ClusterStory", member: Member) -> bool:
    """A clean stop, with what comes before it."""
    if not member.is_serving or story.is_careful:
        return False
    with on_host(CLIENT):
        story.loop.create_task(story.stop(member))
    return True


def _fill_disk(story: "ClusterStory", member: Member) -> bool:
    """The disk is full a little later, until the process has ended and has room again."""
    if not member.is_running or story.is_careful:
        return False
    disk = member.disk
    disk.capacity_bytes = disk.used_bytes() + story.chance.randrange(0, 3000)

    def clear() -> None:
        disk.capacity_bytes = UNLIMITED_BYTES

    story.loop.call_later(story.chance.uniform(0, 2), clear)
    return True


def _fail_sync(story: "ClusterStory", member: Member) -> bool:
    """A sync fails, and what it should have kept is lost for the disk."""
    if not member.is_running or not story.is_whole() or story.is_careful:
        return False
    suffix = story.chance.choice((".log", "checkpoint", "quorum-state"))
    member.disk.faults.append(DiskFault(Kind.FLUSH, suffix=suffix))
    story.guard_after_loss(member)
    story.loop.call_later(1, member.disk.faults.clear)
    return True


def _pause(story: "ClusterStory", member: Member) -> bool:
    """SIGSTOP, and SIGCONT after a while."""
    process = member.process
    if process is None:
        return False
    story.loop.pause(process)
    story.loop.call_later(_while(story), story.loop.resume, process)
    return True


def _while(story: "ClusterStory") -> float:
    return story.chance.uniform(0, story.chance.choice((0.5, 2, 4, 8)))


def _part(story: "ClusterStory", member: Member) -> bool:
    """One broker is cut off from the two others."""
    others = [each.host for each in story.members if each is not member]
    links: list[Link] = [(member.host, each) for each in others]
    links += [(each, member.host) for each in others]
    _cut(story, links)
    return True


def _part_from_clients(story: "ClusterStory", member: Member) -> bool:
    _cut(story, [(member.host, CLIENT), (CLIENT, member.host)])
    return True


def _cut_one_way(story: "ClusterStory", member: Member) -> bool:
    """Nothing comes through in one direction of one link."""
    other = story.chance.choice([each for each in story.members if each is not member])
    ends = (member, other) if story.chance.random() < 0.5 else (other, member)
    _cut(story, [(ends[0].host, ends[1].host)])
    return True


def _cut(story: "ClusterStory", links: list[Link]) -> None:
    """Hold what is sent on links for a while; then it arrives, or the connections are lost."""
    story.network.cut_links(links)
    is_lost = story.chance.random() < 0.3

    def mend() -> None:
        for one, other, *_ in links if is_lost else ():
            story.network.reset(one, other)
        story.network.mend_links(links)

    story.loop.call_later(_while(story), mend)


def _cut_from_controllers(story: "ClusterStory", member: Member) -> bool:
    """A broker hears nothing of the metadata, or nothing from it is heard; the rest goes on."""
    others = [each.host for each in story.members if each is not member]
    links: list[Link] = [(each, member.host, CONTROLLER_PORT) for each in others]
    if story.chance.random() < 0.5:
        links += [(member.host, each, CONTROLLER_PORT) for each in others]
    _cut(story, links)
    return True


def _cut_power_behind_a_cut(story: "ClusterStory", member: Member) -> bool:
    """What a broker sent before it lost its power arrives when its next life is under way."""
    if not member.is_running or not story.may_lose_power():
        return False
    other = story.chance.choice([each for each in story.members if each is not member])
    links: list[Link] = [(member.host, other.host)]
    story.network.cut_links(links)

    def lose() -> None:
        if member.is_running and story.may_lose_power():
            story.end(member, Survival.BY_CHANCE)
            story.guard_after_loss(member)

    story.loop.call_later(story.chance.uniform(0.05, 0.5), lose)
    story.loop.call_later(story.chance.uniform(0.5, 4), story.network.mend_links, links)
    return True


def _slow_link(story: "ClusterStory", member: Member) -> bool:
    """What is sent from one broker to another takes long."""
    other = story.chance.choice([each for each in story.members if each is not member])
    link: Link = (member.host, other.host)
    story.network.slow[link] = story.chance.choice((0.05, 0.3, 1.0))
    story.loop.call_later(_while(story), story.network.slow.pop, link, None)
    return True


def _reset(story: "ClusterStory", member: Member) -> bool:
    """Connections between two hosts are lost."""
    others = [each.host for each in story.members if each is not member] + [CLIENT]
    story.network.reset(member.host, story.chance.choice(others))
    return True


def _leap(story: "ClusterStory", member: Member) -> bool:
    """The wall clock is set."""
    member.leap(story.chance.choice((-3_600_000, -2000, 0, 0, 1500, 3_600_000)))
    return True


_N = StoreFault.NONE
WEATHERS = (
    (StoreFault.UNREACHABLE,),
    (_N, StoreFault.THROTTLED),
    (_N, _N, StoreFault.BROKEN, StoreFault.UNREACHABLE),
    (_N, _N, StoreFault.TOO_LATE),
    (_N, _N, StoreFault.LATER),
    (_N, StoreFault.TRUNCATED),
)


def _spoil_store(story: "ClusterStory", _: Member) -> bool:
    """The object store is down, throttles, breaks off, or is slow to do what it has denied."""
    store = story.tier
    if store is None:
        return False
    store.weather = Weather(story.chance.choice(WEATHERS), story.chance.choice((0.01, 0.2, 2.0)))

    def clear() -> None:
        store.weather = Weather()

    story.loop.call_later(_while(story), clear)
    return True


FAULTS: dict[str, Callable[["ClusterStory", Member], bool]] = {
    "kill": _kill,
    "kill of two": _kill_two,
    "kill of the last in sync": _kill_last,
    "power loss": _cut_power,
    "clean stop": _stop,
    "disk full": _fill_disk,
    "sync to fail": _fail_sync,
    "pause": _pause,
    "partition": _part,
    "partition from clients": _part_from_clients,
    "one-way cut": _cut_one_way,
    "cut from controllers": _cut_from_controllers,
    "power loss behind a cut": _cut_power_behind_a_cut,
    "slow link": _slow_link,
    "connection reset": _reset,
    "clock leap": _leap,
    "bad store": _spoil_store,
}
"""By name."""
ALL_FAULTS = {**FAULTS, "long absence": _miss_much}
FAULTS_WITH_TIER = ("bad store",) * 3 + ("long absence",) * 2
"""What happens more often where there is a tier, or only there."""
