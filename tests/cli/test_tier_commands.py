"""`tierlog tier` where there is nothing to look at, or nobody who reads the answer."""

import argparse
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tierlog.bench.harness.requests.probe import free_port
from tierlog.cli.tier.commands import add_tier_commands, run_tier_command
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import Record, batches, stamp_crc
from tierlog.clients.record.builder import build_batch
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.storage.files import OsFiles
from tierlog.tests.broker_process import BrokerThread
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tests.tiering.tools.bucket import Bucket
from tierlog.tiering.metadata.metadata_events import METADATA_TOPIC


def tier(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_tier_commands(parser)
    return run_tier_command(parser.parse_args(words))


def place(root: Path) -> tuple[str, str]:
    return "--override", f"rsm.config.url=file://{root}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    bucket = Bucket()
    bucket.put(1, (0, 9))
    bucket.write_to(tmp_path / "tier")
    return tmp_path / "tier"


def test_a_tier_that_holds_something_is_sound(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tier("verify", *place(root)) == 0
    assert tier("verify", "orders", *place(root)) == 0
    assert "1 segment of 1 partition, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "where", "said"),
    [
        (("nosuch",), "tier", "holds no topic nosuch: there is nothing to verify."),
        ((), "tier/nosuch", "holds no segment: there is nothing to verify."),
        ((), "nosuch/folder", "holds no segment: there is nothing to verify."),
        (("orders",), "nosuch/folder", "holds no topic orders: there is nothing to verify."),
        (("nosuch", "--quick", "--json"), "tier", "holds no topic nosuch"),
    ],
)
def test_where_nothing_is_found_nothing_is_sound(
    root: Path, words: tuple[str, ...], where: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tier("verify", *words, *place(root.parent / where)) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


def test_an_empty_tier_is_listed_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tier("ls", "--segments", *place(tmp_path / "nothing")) == 0
    assert capsys.readouterr().out == f"The tier file://{tmp_path}/nothing holds no segment.\n"


def test_an_unknown_protocol_is_refused_as_at_a_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tier("ls", "--override", "rsm.config.url=s4://bucket/x") == 2
    assert "no file system for s4://; did you mean s3://?" in capsys.readouterr().err


def test_an_address_where_nobody_listens_is_named_within_seconds(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        began = time.monotonic()
        assert tier("scrub", "--bootstrap", address, *place(root)) == 2
        assert time.monotonic() - began < 20, "seconds, and not a minute"
    assert capsys.readouterr().err == (
        f"tierlog: Cannot connect to {address}: Connection refused. Check host and port, that "
        "the broker runs, and that its `listeners` has a PLAINTEXT listener there. For a "
        "stopped broker, --offline reads the disk.\n"
    )


def test_an_address_that_accepts_and_says_nothing_is_named_too(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert tier("ls", "--bootstrap", address, *place(root)) == 2
    printed = capsys.readouterr()
    assert f"Cannot connect to {address}: no response within 10 s. Check host" in printed.err
    assert printed.out == ""


def test_a_broker_that_advertises_a_wrong_address_is_reported(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As behind a tunnel: bootstrap goes through, and then nothing."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        elsewhere = f"127.0.0.1:{nobody.getsockname()[1]}"
        listens = f"127.0.0.1:{free_port()}"
        stated = {
            "listeners": f"PLAINTEXT://{listens}",
            "advertised.listeners": f"PLAINTEXT://{elsewhere}",
        }
        with BrokerThread(tmp_path / "data", stated):
            assert tier("ls", "--bootstrap", listens, *place(root)) == 2
    printed = capsys.readouterr().err
    assert (
        f"Cannot connect to {elsewhere}: Connection refused. The broker advertises this" in printed
    )
    assert "check its `advertised.listeners`" in printed


def test_a_plugins_tier_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("class Tier:\n    pass\n")
    code = tier(
        "ls",
        "--override",
        "remote.log.storage.system.enable=true",
        "--override",
        "remote.log.storage.manager.class.name=mine.Tier",
        "--override",
        f"remote.log.storage.manager.class.path={tmp_path}",
    )
    assert code == 2
    assert "Only the class mine.Tier can read this tier" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_ends_it_quietly(root: Path) -> None:
    """As `tierlog tier ls | head -1` does, with what it does not read still in the pipe."""
    command = [sys.executable, "-m", "tierlog.cli", "tier", "ls", "--segments", *place(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        assert listing.stdout is not None
        listing.stdout.close()
        assert listing.stderr is not None
        assert listing.stderr.read() == b""
        assert listing.wait() == 2


def test_a_verification_that_ctrl_c_ends_has_found_nothing_sound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tier = f"rsm.config.option.endpoint_url=http://127.0.0.1:{silent.getsockname()[1]}"
        stated = ["rsm.config.url=s3://bucket/tier", tier]
        stated += ["rsm.config.option.key=somebody", "rsm.config.option.secret=nobody knows"]
        command = [sys.executable, "-m", "tierlog.cli", "tier", "verify"]
        command += [word for each in stated for word in ("--override", each)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as verification:
            silent.settimeout(60)
            asking, _ = silent.accept()
            with asking:
                assert asking.recv(1)
                verification.send_signal(signal.SIGINT)
                said = verification.communicate(timeout=60)
    output, errors = said
    # A slow machine gets so far as to say that it waits.
    results = [line for line in errors.splitlines() if b"has not answered for" not in line]
    assert (verification.returncode, output, results) == (130, b"", [])


def meta(directory: Path, cluster_id: str) -> tuple[str, str]:
    """A data directory as a broker of a cluster leaves it; how it is named on a command line."""
    directory.mkdir()
    log_dir = LogDir(OsFiles(), str(directory))
    log_dir.write_meta_properties(MetaProperties(cluster_id, 1, Uuid(b"d" * 16)))
    return "--override", f"log.dirs={directory}"


def test_a_tier_says_whose_it_is_and_changes_hands(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = meta(tmp_path / "a", "ours"), meta(tmp_path / "b", "theirs")
    assert tier("owner", *place(root), *ours) == 0
    assert (
        "has no owner: the first cluster that writes to it becomes the owner"
        in capsys.readouterr().out
    )
    assert tier("owner", "--take-over", *place(root), *ours) == 0
    assert "belongs to cluster 'ours' (node 1)." in capsys.readouterr().out
    assert tier("owner", "--take-over", *place(root), *theirs) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "The previous owner was cluster 'ours' (node 1)."
    assert tier("owner", "--json", *place(root), *ours) == 0
    assert json.loads(capsys.readouterr().out)["owner"] == {"cluster_id": "theirs", "node_id": 1}
    # Neither a listing nor a check takes the object for somebody's left-over.
    assert tier("verify", *place(root)) == 0
    assert "note:" not in capsys.readouterr().out


def test_a_tier_is_not_given_to_a_directory_that_is_no_brokers(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = "--override", f"log.dirs={tmp_path}/nosuch"
    assert tier("owner", "--take-over", *place(root), *empty) == 2
    assert "holds no broker data" in capsys.readouterr().err
    assert not (root / "tierlog-owner.json").exists()


def test_a_rebuilt_broker_owns_the_tier_only_if_that_is_said(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tier("owner", "--take-over", *place(root), *meta(tmp_path / "old", "old")) == 0
    capsys.readouterr()
    first, second = (("--override", f"log.dirs={tmp_path}/{name}") for name in ("r1", "r2"))
    assert tier("rebuild", *place(root), *first) == 0
    assert "the tier belongs to cluster 'old' (node 1): until" in capsys.readouterr().out
    assert tier("rebuild", "--take-over", *place(root), *second) == 0
    capsys.readouterr()
    assert tier("owner", *place(root)) == 0
    assert "'old'" not in capsys.readouterr().out


def test_what_can_be_written_again_is_shown_and_then_written(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (index,) = root.glob("*/*.index")
    content = index.read_bytes()
    index.unlink()
    assert tier("verify", *place(root)) == 1
    assert "`tierlog tier repair` writes this one again" in capsys.readouterr().out
    assert tier("repair", *place(root)) == 1
    said = capsys.readouterr().out.splitlines()
    assert f"{index.parent.name}/{index.name}: can be rewritten" in said[0]
    assert said[-1] == "nothing was written: use --write"
    assert not index.exists()
    assert tier("repair", "--write", "--json", *place(root)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["written"]
    assert report["objects"][0]["key"] == f"{index.parent.name}/{index.name}"
    assert len(index.read_bytes()) <= len(content)
    assert tier("verify", *place(root)) == 0
    capsys.readouterr()
    assert tier("repair", "orders", *place(root)) == 0
    assert "nothing to repair" in capsys.readouterr().out


def with_a_hole(root: Path) -> None:
    """Put a topic beside the sound one whose middle is missing."""
    bucket = Bucket()
    other = PARTITION._replace(topic="holed", topic_id=Uuid(b"of a holed topic"))
    bucket.put(2, (0, 9), partition=other)
    bucket.put(3, (20, 29), partition=other)
    bucket.write_to(root)


def test_a_rebuild_restores_what_it_can_and_says_what_it_left(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_a_hole(root)
    directory = tmp_path / "rebuilt"
    rebuilt = "--override", f"log.dirs={directory}"
    assert tier("rebuild", "--dry-run", *place(root), *rebuilt) == 1
    assert not directory.exists()
    said = capsys.readouterr().out.splitlines()
    why = "is left out: partition 0: no segment holds the offsets 10 to 19"
    assert any(each.startswith("holed ") and each.endswith(why) for each in said)
    assert said[-1] == "nothing was written: this was a dry run"
    assert tier("rebuild", *place(root), *rebuilt) == 1
    said = capsys.readouterr().out.splitlines()
    assert f"{directory} is ready: start the broker on it" in said
    assert said[-1].startswith("to have what is left out as well, follow the advice above")
    assert (directory / "orders-0").is_dir()
    assert not (directory / "holed-0").exists()
    again = "--override", f"log.dirs={tmp_path}/again"
    assert tier("rebuild", "--skip-holes", "--json", *place(root), *again) == 0
    report = json.loads(capsys.readouterr().out)
    assert [each["topic"] for each in report["topics"]] == ["holed", "orders"]
    assert (report["written"], report["left_out"]) == (True, [])


def test_a_rebuild_of_nothing_that_can_be_read_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_a_hole(tmp_path / "tier")
    rebuilt = "--override", f"log.dirs={tmp_path}/rebuilt"
    assert tier("rebuild", "--take-over", *place(tmp_path / "tier"), *rebuilt) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "nothing was written: no topic can be restored, see above"
    assert not (tmp_path / "rebuilt").exists()
    assert not (tmp_path / "tier" / "tierlog-owner.json").exists()


def test_a_scrub_removes_nothing_from_another_clusters_tier(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tier("owner", "--take-over", *place(root), *meta(tmp_path / "old", "old")) == 0
    rebuilt = "--override", f"log.dirs={tmp_path}/rebuilt"
    assert tier("rebuild", *place(root), *rebuilt) == 0
    (left_over,) = root.glob("*/*.manifest")
    left_over.unlink()
    before = sorted(root.rglob("*"))
    scrub = ("scrub", "--offline", "--grace", "0ms", "--delete", "--unknown-partitions")
    assert tier(*scrub, *place(root), *rebuilt) == 2
    assert ", not to the broker whose metadata was read" in capsys.readouterr().err
    assert sorted(root.rglob("*")) == before


def metadata_logs(directory: Path) -> list[Path]:
    return [each for each in directory.glob(f"{METADATA_TOPIC}-*/*.log") if each.stat().st_size]


def events_of_a_rebuild(root: Path, directory: Path) -> Path:
    """The log of the metadata topic that a rebuild has written: one batch of two events."""
    assert tier("rebuild", *place(root), "--override", f"log.dirs={directory}") == 0
    (log,) = metadata_logs(directory)
    return log


def written(batches_in_order: list[bytearray]) -> bytes:
    """Batches one after the other, with the offsets that they have there."""
    offset = 0
    for view in batches_in_order:
        count = int.from_bytes(view[23:27], "big") + 1
        view[:8] = offset.to_bytes(8, "big")
        offset += count
    return b"".join(batches_in_order)


def no_event() -> bytearray:
    return bytearray(build_batch([Record(0, 0, None, b"no event")]))


def test_a_stopped_brokers_metadata_is_read_past_what_is_no_event(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A record that is no event, and a batch whose records are none."""
    rebuilt = "--override", f"log.dirs={tmp_path}/rebuilt"
    log = events_of_a_rebuild(root, tmp_path / "rebuilt")
    bad = [no_event(), no_event()]
    bad[1][61:] = b"\xff" * (len(bad[1]) - 61)
    stamp_crc(memoryview(bad[1]), 0, len(bad[1]))
    events = [bytearray(each.view) for each in batches(log.read_bytes())]
    # What was being written when the broker was killed is a note.
    log.write_bytes(written([*bad, *events]) + bytes(no_event())[:40])
    before = sorted(root.rglob("*"))
    capsys.readouterr()
    scrub = ("scrub", "--offline", "--grace", "0ms", "--delete", "--unknown-partitions")
    assert tier(*scrub, *place(root), *rebuilt) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"note: {log}: the last 40 bytes, from position ")
    assert said[1:] == ["no orphans"]
    assert sorted(root.rglob("*")) == before
    messages = [each for each in caplog.messages if "Skipped the record" in each]
    assert [each.split()[5] for each in messages] == ["0", "1"], messages


DAMAGES = {
    "a length that no batch has": (slice(8, 12), b"\0\0\0\x03"),
    "a negative length": (slice(8, 12), b"\xff\0\0\0"),
    "a length beyond the file": (slice(8, 12), b"\x7f\xff\xff\xff"),
    "another magic": (slice(16, 17), b"\x07"),
    "a wrong checksum": (slice(61, 62), b"\xff"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ["ls", "verify", "scrub"])
def test_a_stopped_brokers_metadata_is_read_past_a_damaged_batch(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, damage: str
) -> None:
    """One sentence names the file, the place and what was not read; the rest is read."""
    rebuilt = "--override", f"log.dirs={tmp_path}/rebuilt"
    log = events_of_a_rebuild(root, tmp_path / "rebuilt")
    events = [bytearray(each.view) for each in batches(log.read_bytes())]
    content = bytearray(written([no_event(), no_event(), *events]))
    size = len(no_event())
    where, what = DAMAGES[damage]
    content[size + where.start : size + where.stop] = what
    log.write_bytes(content)
    capsys.readouterr()
    assert tier(command, "--offline", *place(root), *rebuilt) == 1
    printed = capsys.readouterr()
    (sentence,) = (each for each in printed.out.splitlines() if str(log) in each)
    assert sentence.startswith(
        f"{log} (offsets 1 to 1): there is no complete record batch at position {size} ("
    )
    assert f"{size} bytes were not read" in sentence
    assert "unknown" not in printed.out, "the segment behind the damage is known"
    assert tier(command, "--offline", "--json", *place(root), *rebuilt) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["key"] == str(log)
    assert finding["offsets"] == [1, 1]


def test_nothing_is_scrubbed_where_the_metadata_is_damaged(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The batch that is damaged may have told of the segment that looks like an orphan now."""
    rebuilt = "--override", f"log.dirs={tmp_path}/rebuilt"
    log = events_of_a_rebuild(root, tmp_path / "rebuilt")
    content = bytearray(log.read_bytes())
    content[8:12] = b"\0\0\0\x03"
    log.write_bytes(content + bytes(written([bytearray(content), no_event()]))[len(content) :])
    next(root.glob("*/*.manifest")).unlink()
    before = sorted(root.rglob("*"))
    capsys.readouterr()
    scrub = ("scrub", "--offline", "--grace", "0ms", "--unknown-partitions", "--unknown-segments")
    assert tier(*scrub, "--delete", *place(root), *rebuilt) == 1
    said = capsys.readouterr().out
    assert f"{log} (offsets 0 to 1): there is no complete record batch at position 0" in said
    assert "left alone: metadata that could not be read may refer to them" in said
    assert sorted(root.rglob("*")) == before


def test_a_metadata_log_that_lacks_a_file_is_read_around_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rebuilt = "--override", f"log.dirs={tmp_path}/rebuilt"
    log = events_of_a_rebuild(root, tmp_path / "rebuilt")
    later = no_event()
    later[:8] = (7).to_bytes(8, "big")
    behind = log.with_name(f"{7:020d}.log")
    behind.write_bytes(later)
    capsys.readouterr()
    assert tier("ls", "--offline", *place(root), *rebuilt) == 1
    said = capsys.readouterr().out
    assert "COPY_SEGMENT_FINISHED" in said
    assert f"{behind} (offsets 2 to 6): a file before it was removed or truncated" in said
