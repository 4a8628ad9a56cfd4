"""Files that a crash or a bad disk left damaged: a start heals them, or refuses in one sentence.

What can be made again from the records (indexes, checkpoints, snapshots) is made again without a
word. A torn tail is cut off, and that is told. What says whose data this is cannot be guessed,
so a start refuses.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tierlog.replication.metadata.durable_end import DURABLE_END_FILE
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.scenarios.foreign_clients import CLIENTS
from tierlog.tests.scenarios.plain_io import PlainProducer, produce, read, value_of

TOPIC = "hurt"
RECORDS = 3_000
EVERYTHING = [(each, value_of(each)) for each in range(RECORDS)]
PROPERTIES = {"remote.log.storage.system.enable": "false"}

Damage = Callable[[Path], object]


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: max(0, len(content) - 7)])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for position in range(0, len(content), max(1, len(content) // 3)):
        content[position] ^= 0xFF
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def remove(file: Path) -> None:
    file.unlink()


def add_nonsense(file: Path) -> None:
    with file.open("ab") as end:
        end.write(b"\x9c" * 333)


def losses(broker: BrokerProcess) -> list[str]:
    """What the broker told of records that are gone."""
    lines = broker.log.read_text().splitlines()
    return [
        line
        for line in lines
        if re.search(r" WARNING \S+: Data loss: The log of .* was truncated at ", line)
    ]


DAMAGES: tuple[Damage, ...] = (cut, flip, empty, remove, add_nonsense)


@pytest.fixture(scope="module")
def after_a_crash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a broker that was killed."""
    directory = tmp_path_factory.mktemp("crashed")
    with BrokerProcess.on(directory, PROPERTIES) as broker:
        config = {"segment.bytes": "1048576"}
        CLIENTS["confluent-kafka"].create_topic(broker.bootstrap, TOPIC, config)
        sender = PlainProducer(broker.bootstrap, TOPIC, timeout_ms=30_000)
        for start in range(0, RECORDS, 100):
            sender.send(map(value_of, range(start, start + 100)))
        assert sender.send([]).acknowledged == EVERYTHING
        broker.kill()
    return directory / "data"


def copy_of(data: Path, directory: Path) -> Path:
    shutil.copytree(data, directory / "data")
    return directory / "data"


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_can_be_made_again_is_made_again(
    damage: Damage, after_a_crash: Path, tmp_path: Path
) -> None:
    data = copy_of(after_a_crash, tmp_path)
    derived = [
        *data.glob(f"{TOPIC}-0/*.index"),
        *data.glob(f"{TOPIC}-0/*.timeindex"),
        *data.glob(f"{TOPIC}-0/*.snapshot"),
        *data.glob(f"{TOPIC}-0/leader-epoch-checkpoint"),
        *data.glob("*-offset-checkpoint"),
        *data.glob("__cluster_metadata-0/*index"),
    ]
    assert len(derived) >= 8
    for file in derived:
        damage(file)
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        assert read(broker.bootstrap, TOPIC, RECORDS) == EVERYTHING
        assert produce(broker.bootstrap, TOPIC, [b"more"]).acknowledged == [(RECORDS, b"more")]
        assert broker.stop() == 0
    assert "Traceback" not in broker.log.read_text()
    assert losses(broker) == []


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut, add_nonsense])
def test_a_torn_tail_is_cut_off(damage: Damage, after_a_crash: Path, tmp_path: Path) -> None:
    data = copy_of(after_a_crash, tmp_path)
    damage(max(data.glob(f"{TOPIC}-0/*.log")))
    left = RECORDS if damage is add_nonsense else RECORDS - 100
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        assert produce(broker.bootstrap, TOPIC, [b"more"]).acknowledged == [(left, b"more")]
        assert read(broker.bootstrap, TOPIC, left) == EVERYTHING[:left]
        assert broker.stop() == 0
    assert "Traceback" not in broker.log.read_text()
    (loss,) = losses(broker)
    assert (
        f"The log of {TOPIC}-0 in {data}/{TOPIC}-0 was truncated at offset {left} because" in loss
    )


@pytest.mark.slow
@pytest.mark.parametrize("damage", [flip, empty])
@pytest.mark.parametrize("name", ["meta.properties", "__cluster_metadata-0/quorum-state"])
def test_whose_data_it_is_cannot_be_guessed(
    name: str, damage: Damage, after_a_crash: Path, tmp_path: Path
) -> None:
    data = copy_of(after_a_crash, tmp_path)
    damage(data / name)
    broker = BrokerProcess.on(tmp_path, PROPERTIES)
    try:
        assert broker.process.wait(30) == 1
        (line,) = broker.log.read_text().splitlines()
    finally:
        broker.close()
    assert line.startswith(f"tierlog: {data / name} ")
    assert line.isprintable()


def empty_log(metadata: Path) -> None:
    empty(metadata / f"{0:020d}.log")


def flip_log(metadata: Path) -> None:
    flip(metadata / f"{0:020d}.log")


@pytest.mark.slow
@pytest.mark.parametrize("damage", [shutil.rmtree, empty_log, flip_log])
def test_logs_of_topics_that_the_metadata_has_lost_are_not_given_up(
    damage: Damage, after_a_crash: Path, tmp_path: Path
) -> None:
    data = copy_of(after_a_crash, tmp_path)
    damage(data / "__cluster_metadata-0")
    # What a loss of power may take as well; else the start is refused on the strength of it.
    (data / "__cluster_metadata-0" / DURABLE_END_FILE).unlink(missing_ok=True)
    before = {path.name: path.read_bytes() for path in data.glob(f"{TOPIC}-0/*.log")}
    for _ in range(2):
        broker = BrokerProcess.on(tmp_path, PROPERTIES)
        try:
            assert broker.process.wait(30) == 1
        finally:
            broker.close()
        assert broker.log.read_text().splitlines()[-1] == (
            f"tierlog: {data / f'{TOPIC}-0'} holds the log of a topic that the metadata log in "
            f"{data / '__cluster_metadata-0'} has lost: restore the metadata log from a backup, or "
            f"move the logs of lost topics out of {data}."
        )
        assert "Traceback" not in broker.log.read_text()
    assert before == {path.name: path.read_bytes() for path in data.glob(f"{TOPIC}-0/*.log")}


@pytest.mark.slow
@pytest.mark.parametrize("damage", [empty, cut])
def test_records_that_vanish_after_a_clean_stop_leave_a_log_that_works(
    damage: Damage, after_a_crash: Path, tmp_path: Path
) -> None:
    data = copy_of(after_a_crash, tmp_path)
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        assert broker.stop() == 0
    last = max(data.glob(f"{TOPIC}-0/*.log"))
    damage(last)
    left = int(last.stem) if damage is empty else RECORDS - 100
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        assert produce(broker.bootstrap, TOPIC, [b"more"]).acknowledged == [(left, b"more")]
        assert read(broker.bootstrap, TOPIC, left) == EVERYTHING[:left]
        assert broker.stop() == 0
    assert "Traceback" not in broker.log.read_text()
