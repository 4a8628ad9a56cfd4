"""Whose a tier is, told by two brokers that both believe that it is theirs."""

import asyncio
import logging
from pathlib import Path

import pytest

from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.storage.files import OsFiles
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import MemoryTier
from tierlog.tests.tiering.segments import segment_data, segment_metadata
from tierlog.tests.tiering.tiered_broker import TieredBroker, until
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.owner_watch import WATCH_SECONDS
from tierlog.tiering.remote_storage import Failure, LogSegmentData, RemoteStorageError
from tierlog.tiering.store.fsspec_storage import FsspecStorage
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.store.tier_store import TierObject
from tierlog.tiering.tier_owner import (
    OWNER_FILE,
    OWNER_KEY,
    TRUST_SECONDS,
    NotTheOwnerError,
    Owner,
    OwnerFile,
    OwnerTools,
    TierOwnership,
    Writer,
    decode_owner,
    encode_owner,
    read_owner,
)
from tierlog.tiering.tools.stored_segments import sort_out

DATA = "/data"


class Store(Bucket):
    """A bucket that is written to, too."""

    def __str__(self) -> str:
        return "s3://bucket/tier"

    async def write_bytes(self, key: str, content: bytes) -> None:
        self._answer()
        self.objects[key] = content


class Directory:
    """A broker's data directory, and what runs on it."""

    def __init__(
        self,
        loop: SimulatedLoop,
        store: Store,
        cluster_id: str = "ours",
        *,
        node_id: int = 1,
        is_shared: bool = False,
    ) -> None:
        self.loop = loop
        self.store = store
        self.writer = Writer(cluster_id, node_id)
        self.is_shared = is_shared
        self.files = SimulatedFiles(SimulatedDisk())
        self.files.mkdirs(DATA)
        self.lives = 0

    def clone(self) -> "Directory":
        copy = Directory(self.loop, self.store, self.writer.cluster_id)
        copy.files.atomic_replace(f"{DATA}/{OWNER_FILE}", self.files.read(f"{DATA}/{OWNER_FILE}"))
        return copy

    def start(self, *, renews_token: bool = True) -> TierOwnership:
        self.lives += 1
        name = f"{self.writer.cluster_id} {self.lives} {id(self)}"
        tools = OwnerTools(
            lambda: self.writer,
            OwnerFile(self.files, DATA, str(self.store)),
            SimulatedEnvironment(self.loop, name),
            ThreadedPool(1, "test"),
            self.is_shared,
        )
        return TierOwnership(self.store, tools, renews_token=renews_token)


async def refused(ownership: TierOwnership) -> str:
    with pytest.raises(NotTheOwnerError) as error:
        await ownership.check()
    assert not error.value.is_retriable
    return str(error.value)


async def test_the_first_that_writes_adopts_a_tier_and_keeps_it(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one that was written before there were owners."""
    caplog.set_level(logging.INFO)
    store = Store()
    store.put(1, (0, 9))
    ours = Directory(loop, store)
    for _ in range(3):
        running = ours.start()
        for _ in range(3):
            await running.check()
            await asyncio.sleep(TRUST_SECONDS + 1)
    owner = await read_owner(store)
    assert owner is not None
    assert owner[:2] == ("ours", 1)
    assert len([each for each in caplog.records if "which had no owner" in each.message]) == 1


async def test_the_brokers_of_a_cluster_own_a_tier_together(loop: SimulatedLoop) -> None:
    """They may claim it at once; each that starts later finds it claimed."""
    store = Store()
    nodes = [Directory(loop, store, node_id=each, is_shared=True) for each in (1, 2, 3)]
    running = [node.start() for node in nodes]
    await asyncio.gather(*(each.check() for each in running[:2]))
    owner = await read_owner(store)
    for ownership in (*running, *(node.start() for node in nodes)):
        await ownership.check()
        await ownership.look()
    assert await read_owner(store) == owner, "nobody has to claim it again"
    stranger = Directory(loop, store, "theirs", is_shared=True).start()
    assert "not to cluster theirs" in await refused(stranger)
    await stranger.take_over()
    assert "belongs to cluster 'theirs'" in await refused(nodes[2].start())


async def test_two_of_one_process_that_claim_at_once_do_not_forget_each_other_s_tokens(
    loop: SimulatedLoop,
) -> None:
    """The scrub looks at a new tier while the first segment is copied; then the power goes."""
    store = Store()
    ours = Directory(loop, store)
    copying, scrub = ours.start(), ours.start(renews_token=False)
    claims = [loop.create_task(each.check()) for each in (copying, scrub)]
    tokens: set[str] = set()
    while not all(claim.done() for claim in claims):
        owner = await read_owner(store)
        if owner is not None:
            tokens.add(owner.token)
        # Whatever stands in the tier at any moment, the next start knows it.
        known = set(OwnerFile(ours.files, DATA, str(store)).tokens())
        assert tokens <= known, "the tier would be lost to its owner"
        await asyncio.sleep(0.05)
    await asyncio.gather(*claims)
    await ours.start().check()


async def test_another_cluster_is_refused_in_one_plain_sentence(loop: SimulatedLoop) -> None:
    store = Store()
    await Directory(loop, store).start().check()
    said = await refused(Directory(loop, store, "theirs").start())
    assert said == (
        "The remote tier s3://bucket/tier belongs to cluster 'ours' (node 1), not to "
        "cluster theirs: nothing is copied to it or removed from it. Use a separate prefix "
        "for each cluster in rsm.config.url; if the owner is gone for good, run `tierlog "
        "tier owner --take-over`"
    )


@pytest.mark.parametrize("clone_first", [False, True])
async def test_of_a_data_directory_and_its_clone_one_owns_the_tier(
    loop: SimulatedLoop, clone_first: bool
) -> None:
    store = Store()
    original = Directory(loop, store)
    running = original.start()
    await running.check()
    clone = original.clone()
    if not clone_first:
        again = original.start()
        await again.check()
        await refused(clone.start())
        await again.check()
        return
    # The clone comes up while the original runs: who comes last has it, and only that one.
    await clone.start().check()
    await asyncio.sleep(TRUST_SECONDS + 1)
    await refused(running)
    await refused(original.start())


async def test_of_two_that_take_an_empty_tier_at_once_one_has_it(loop: SimulatedLoop) -> None:
    store = Store()
    both = [Directory(loop, store, name).start() for name in ("one", "two")]
    outcomes = await asyncio.gather(*(each.check() for each in both), return_exceptions=True)
    assert sorted(type(each) is NotTheOwnerError for each in outcomes) == [False, True]


async def test_a_tier_changes_hands_when_somebody_says_so(loop: SimulatedLoop) -> None:
    store = Store()
    ours, theirs = Directory(loop, store), Directory(loop, store, "theirs")
    running = ours.start()
    await running.check()
    before = await theirs.start().take_over()
    assert before is not None
    assert before.cluster_id == "ours"
    await theirs.start().check()
    await asyncio.sleep(TRUST_SECONDS + 1)
    await refused(running)
    await ours.start().take_over()
    await running.check()


async def test_a_kill_at_any_point_of_taking_a_tier_leaves_it_to_its_owner(
    loop: SimulatedLoop,
) -> None:
    for steps in range(12):
        store = Store()
        ours = Directory(loop, store)
        await ours.start().check()
        task = asyncio.ensure_future(ours.start().check())
        for _ in range(steps):
            await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await ours.start().check()


async def test_a_scrub_looks_with_the_writers_eyes(loop: SimulatedLoop) -> None:
    store = Store()
    ours = Directory(loop, store)
    writer, scrub = ours.start(), ours.start(renews_token=False)
    await scrub.check()
    await writer.check()
    await asyncio.sleep(TRUST_SECONDS + 1)
    await scrub.check()
    await refused(Directory(loop, store, "theirs").start(renews_token=False))


async def test_a_store_that_does_not_answer_is_no_other_owner(loop: SimulatedLoop) -> None:
    store = Store()
    ours = Directory(loop, store).start()
    store.is_down = True
    with pytest.raises(RemoteStorageError) as error:
        await ours.check()
    assert error.value.failure is Failure.UNREACHABLE
    store.is_down = False
    await ours.check()


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b'{"version": 2}', b"[" * 5000, b'{"version":1,"cluster_id":1}'],
)
async def test_a_damaged_owner_is_nobody_until_somebody_takes_over(
    loop: SimulatedLoop, content: bytes
) -> None:
    store = Store()
    ours = Directory(loop, store)
    store.objects[OWNER_KEY] = content
    with pytest.raises(RemoteStorageError, match="does not name the owner of the tier"):
        await ours.start().check()
    assert store.objects[OWNER_KEY] == content
    assert await ours.start().take_over() is None
    await ours.start().check()


async def test_a_damaged_file_of_tokens_knows_none(loop: SimulatedLoop) -> None:
    store = Store()
    ours = Directory(loop, store)
    await ours.start().check()
    for content in (b"", b"\xff", b"[]", b"[" * 5000, b'{"s3://bucket/tier": 3}'):
        ours.files.atomic_replace(f"{DATA}/{OWNER_FILE}", content)
        assert "not to this data directory" in await refused(ours.start())
    await ours.start().take_over()
    await ours.start().check()


def test_an_owner_is_read_as_it_was_written() -> None:
    owner = Owner("cluster", 7, "token", 1_700_000_000_000)
    assert decode_owner(encode_owner(owner)) == owner


async def test_two_brokers_on_one_prefix_copy_and_delete_one_at_a_time(tmp_path: Path) -> None:
    """The other reads: that harms nobody."""
    location = RemoteUrl(f"file://{tmp_path}/tier")
    metadata = segment_metadata(1, size=3)

    def broker(name: str) -> FsspecStorage:
        (tmp_path / name).mkdir()
        pool = ThreadedPool(2, "test")
        tools = OwnerTools(
            lambda: Writer(name, 1),
            OwnerFile(OsFiles(), str(tmp_path / name), str(location)),
            SystemEnvironment(),
            pool,
        )
        return FsspecStorage(location, OsFiles(), pool, owner=tools)

    first, second = broker("first"), broker("second")
    await first.copy_log_segment_data(metadata, segment_data(b"log"))
    objects = sorted((tmp_path / "tier").rglob("*"))
    for refused in (
        second.copy_log_segment_data(segment_metadata(2), segment_data(b"log")),
        second.delete_log_segment_data(metadata),
        second.delete_partition(metadata.topic_id_partition),
    ):
        with pytest.raises(NotTheOwnerError):
            await refused
    assert sorted((tmp_path / "tier").rglob("*")) == objects
    assert await second.fetch_log_segment(metadata, 0, 2) == b"log"
    await first.delete_log_segment_data(metadata)
    await first.close()
    await second.close()
    assert sort_out([TierObject(OWNER_KEY, 1, 0)]).foreign == []


async def test_a_store_that_is_away_while_a_token_is_written_locks_nobody_out(
    loop: SimulatedLoop,
) -> None:
    """What was written without an answer may turn up, or never."""
    store = Store()
    ours = Directory(loop, store)
    await ours.start().check()
    for _ in range(3):
        task = asyncio.ensure_future(ours.start().take_over())
        await asyncio.sleep(0)
        store.is_down = True
        await asyncio.gather(task, return_exceptions=True)
        store.is_down = False
    await ours.start().check()


class OwnedTier(MemoryTier):
    """A tier in memory that has an owner."""

    def __init__(self, ownership: TierOwnership) -> None:
        super().__init__()
        self.ownership = ownership

    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        await self.ownership.check()
        return await super().copy_log_segment_data(metadata, data)

    async def look_at_owner(self) -> None:
        await self.ownership.look()


def owner_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if "belongs to" in each or "works again" in each]


async def test_a_broker_with_nothing_to_write_hears_that_its_tier_was_taken_over(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store()
    ours = Directory(loop, store)
    broker = TieredBroker(loop, OwnedTier(ours.start()), SharedTopic())
    await broker.manager.start()
    broker.lead()
    broker.append(2)
    await until(lambda: broker.log.highest_remote_offset == 0)
    theirs = Directory(loop, store, "theirs")
    await theirs.start().take_over()
    assert owner_messages(caplog) == []
    await asyncio.sleep(WATCH_SECONDS + 1)
    (message,) = owner_messages(caplog)
    assert "belongs to cluster 'theirs' (node 1), not to cluster ours" in message
    # Once, however often it looks or wants to write.
    broker.append(2)
    await asyncio.sleep(20 * WATCH_SECONDS)
    assert owner_messages(caplog) == [message]
    await ours.start().take_over()
    await until(lambda: broker.log.highest_remote_offset == 2)
    assert owner_messages(caplog)[1:] == ["The remote tier works again"]
    await broker.manager.stop()


async def test_a_start_on_another_clusters_tier_is_reported_at_the_start(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store()
    await Directory(loop, store, "theirs").start().check()
    before = dict(store.objects)
    ours = Directory(loop, store)
    broker = TieredBroker(loop, OwnedTier(ours.start()), SharedTopic())
    await broker.manager.start()
    broker.lead()
    await until(lambda: owner_messages(caplog) != [], seconds=1)
    assert store.objects == before
    await broker.manager.stop()


async def test_a_look_makes_nobodys_tier_nobodys_own(loop: SimulatedLoop) -> None:
    store = Store()
    await Directory(loop, store).start().look()
    assert store.objects == {}
