"""The audit of a tier on Spark: each fault that a test plants is found, named, and told what to do.

A sound tier is called sound. What cannot be found out is one sentence and exit code 2.
"""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.pipeline.spark.__main__ import main
from tierlog.tests.house_rules import ROOT
from tierlog.tests.pipeline.spark.planted import audit, audit_of, planted, store
from tierlog.tests.pipeline.spark.tiers import (
    TierPlace,
    broker_on,
    produce,
    tiered_topic,
    wait_until_all_is_tiered,
)
from tierlog.tests.tiering.remote_partition import PARTITION, batch_bytes
from tierlog.tests.tiering.servers.s3 import VersityGateway
from tierlog.tests.tiering.tools.bucket import Bucket, forge
from tierlog.tiering.store.manifest import decode_manifest, encode_manifest
from tierlog.tiering.store.object_keys import MANIFEST_SUFFIX, object_key, partition_prefix

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

Said = pytest.CaptureFixture[str]

RESTORE = (
    "restore the object from a backup of the bucket, or accept the loss of the segment's records"
)
REPAIR = (
    "the records are not lost, they are in the segment's log object: `tierlog tier repair` writes"
    " this one again; until then, reads that need it fail"
)


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> SparkSession:
    """The job takes the session that there is."""
    return spark


def test_a_sound_tier_is_said_to_be_sound(file_tier: TierPlace, capsys: Said) -> None:
    found = audit_of(planted().bucket, file_tier, capsys)
    assert (found.code, found.findings) == (0, [])
    (topic,) = found.of("topic")
    assert (topic["topic"], topic["segments"], topic["records"]) == ("orders", 3, 45)
    assert (topic["first_timestamp_ms"], topic["last_timestamp_ms"]) == (0, 440)
    assert [each["sound"] for each in found.of("segment")] == [True] * 3
    assert main(["audit", *file_tier.arguments]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "3 segments of 1 partition, 2.1 KiB, 45 records: sound"


def test_a_flipped_bit_is_found(file_tier: TierPlace, capsys: Said) -> None:
    bucket, (_, second, _) = planted()
    bucket.damage(second, "log", 150)
    found = audit_of(bucket, file_tier, capsys)
    key = object_key(second, "log")
    assert {each["key"] for each in found.findings} == {key}
    first_finding, whole = found.findings
    assert first_finding["problem"] == "the batch at offset 13 does not match its CRC"
    assert whole["problem"] == "the log does not match the CRC32C of its manifest"
    assert all(each["offsets"] == [10, 29] for each in found.findings)
    assert all(each["advice"] == RESTORE for each in found.findings)
    assert [each["sound"] for each in found.of("segment")] == [True, False, True]


def test_a_truncated_object_is_found(file_tier: TierPlace, capsys: Said) -> None:
    bucket, (_, second, _) = planted()
    key = object_key(second, "log")
    size = len(bucket.objects[key])
    bucket.objects[key] = bucket.objects[key][:-20]
    finding = audit_of(bucket, file_tier, capsys).finding(object_key(second, MANIFEST_SUFFIX))
    assert finding["problem"] == f"log has {size - 20} bytes, not {size}"
    assert (finding["offsets"], finding["advice"]) == ([10, 29], RESTORE)
    assert finding["trouble"]


@pytest.mark.parametrize("suffix", ["log", "index", "leader_epoch_checkpoint"])
def test_a_missing_object_is_found(file_tier: TierPlace, capsys: Said, suffix: str) -> None:
    bucket, (_, second, _) = planted()
    del bucket.objects[object_key(second, suffix)]
    found = audit_of(bucket, file_tier, capsys)
    finding = found.finding(object_key(second, MANIFEST_SUFFIX))
    assert finding["problem"] == f"{suffix} is missing"
    assert (finding["offsets"], finding["advice"]) == (
        [10, 29],
        RESTORE if suffix == "log" else REPAIR,
    )
    # The segment is of no use without it, so its offsets are a hole.
    assert found.finding(partition_prefix(PARTITION))["offsets"] == [10, 29]


def test_a_duplicated_segment_is_found(file_tier: TierPlace, capsys: Said) -> None:
    bucket, (_, second, _) = planted()
    copy = bucket.put(9, (10, 29), ((0, 0), (2, 13)))
    found = audit_of(bucket, file_tier, capsys)
    keys = {object_key(each, MANIFEST_SUFFIX) for each in (second, copy)}
    (finding,) = found.findings
    assert {finding["key"], finding["problem"].removeprefix("the segment is a copy of ")} == keys
    assert (finding["offsets"], finding["trouble"]) == ([10, 29], False)
    assert "retention removes it" in finding["advice"]
    # It harms nobody; who wants to know all the same says so.
    assert found.code == 0
    assert audit(file_tier, capsys, "--strict").code == 1


def test_a_segment_under_another_ones_name_is_found(file_tier: TierPlace, capsys: Said) -> None:
    bucket, (_, second, _) = planted()
    copy = replace(second, segment_id=second.segment_id._replace(id=Uuid(b"another segment.")))
    stem, another = (object_key(each, "") for each in (second, copy))
    for key in [each for each in bucket.objects if each.startswith(stem)]:
        bucket.objects[another + key.removeprefix(stem)] = bucket.objects[key]
    finding = audit_of(bucket, file_tier, capsys).finding(another + MANIFEST_SUFFIX)
    assert finding["problem"] == "the manifest belongs to another segment"


def test_orphans_are_found(file_tier: TierPlace, capsys: Said) -> None:
    """What an upload that was cut short has left, and what nobody knows of."""
    bucket, (first, _, _) = planted()
    unfinished = bucket.put(9, (45, 50), ((2, 45),))
    del bucket.objects[object_key(unfinished, MANIFEST_SUFFIX)]
    bucket.objects[object_key(first, "log.tmp")] = b"?"
    bucket.objects["left/by-somebody"] = b"?"
    found = audit_of(bucket, file_tier, capsys)
    problems = {each["key"]: each["problem"] for each in found.findings}
    assert problems == {
        object_key(unfinished, "").removesuffix("."): "there is no manifest",
        object_key(first, "log.tmp"): "it is not in the manifest of its segment",
        "left/by-somebody": "it was not written by tierlog",
    }
    assert not any(each["trouble"] for each in found.findings)
    assert audit(file_tier, capsys, "--strict").code == 1


def test_a_gap_between_segments_is_found(file_tier: TierPlace, capsys: Said) -> None:
    bucket, (_, second, _) = planted()
    stem = object_key(second, "")
    bucket.objects = {
        key: content for key, content in bucket.objects.items() if not key.startswith(stem)
    }
    (finding,) = audit_of(bucket, file_tier, capsys).findings
    assert finding["key"] == partition_prefix(PARTITION)
    assert finding["problem"] == "no segment holds the offsets 10 to 29"
    assert finding["advice"] == "restore the missing segments from a backup of the bucket"
    assert (finding["offsets"], finding["trouble"]) == ([10, 29], True)


def test_a_gap_within_a_segment_is_found(file_tier: TierPlace, capsys: Said) -> None:
    bucket, (first, _, _) = planted()
    forge(bucket, first, "index", b"")
    forge(bucket, first, "log", batch_bytes((0, 2, 0)) + batch_bytes((6, 9, 0)))
    (finding,) = audit_of(bucket, file_tier, capsys).findings
    assert finding["problem"].startswith("no record at the offsets 3 to 5")
    assert not finding["trouble"]


def test_a_wrong_epoch_is_found(file_tier: TierPlace, capsys: Said) -> None:
    bucket, (first, _, third) = planted()
    forge(bucket, first, "index", b"")
    forge(bucket, first, "log", batch_bytes((0, 4, 0)) + batch_bytes((5, 9, 1)))
    forge(bucket, third, "leader_epoch_checkpoint", b"0\n1\n1 0\n")
    found = audit_of(bucket, file_tier, capsys)
    batch = found.finding(object_key(first, "log"))
    assert batch["problem"] == "the batch at offset 5 has leader epoch 1, not 0"
    assert (batch["offsets"], batch["trouble"]) == ([0, 9], True)
    history = found.finding(object_key(third, "leader_epoch_checkpoint"))
    assert history["problem"] == "the leader epochs differ from those in the manifest"


def test_a_manifest_that_contradicts_itself_is_found(file_tier: TierPlace, capsys: Said) -> None:
    bucket, (_, second, _) = planted()
    key = object_key(second, MANIFEST_SUFFIX)
    manifest = decode_manifest(bucket.objects[key])
    wrong = replace(manifest.metadata, segment_leader_epochs=((0, 9), (2, 13)))
    bucket.objects[key] = encode_manifest(manifest._replace(metadata=wrong))
    finding = audit_of(bucket, file_tier, capsys).finding(key)
    assert "do not match the offsets 10 to 29" in finding["problem"]


def test_a_segment_in_whose_midst_the_log_began_is_sound(
    file_tier: TierPlace, capsys: Said
) -> None:
    bucket = Bucket()
    bucket.put(1, (0, 9), ((0, 0), (2, 8)), log_start=5)
    found = audit_of(bucket, file_tier, capsys)
    assert (found.code, found.findings) == (0, [])


@pytest.mark.requires("go")
def test_faults_are_found_in_a_real_object_store(s3_tier: TierPlace, capsys: Said) -> None:
    bucket, (first, second, third) = planted()
    store(bucket, s3_tier)
    assert audit(s3_tier, capsys).code == 0
    bucket.damage(first, "log", -1)
    bucket.objects[object_key(second, "log")] += b"?"
    del bucket.objects[object_key(third, "timeindex")]
    bucket.put(9, (0, 9), ((0, 0),))
    found = audit_of(bucket, s3_tier, capsys)
    keys = {each["key"] for each in found.findings if each["trouble"]}
    assert object_key(second, MANIFEST_SUFFIX) in keys
    assert object_key(third, MANIFEST_SUFFIX) in keys
    assert object_key(first, "log") in keys
    assert any("is a copy of" in each["problem"] for each in found.findings)


class _Tiered(NamedTuple):
    node: TierlogNode
    place: TierPlace


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Tiered]:
    """A broker that has copied what it may, and copies nothing."""
    directory = tmp_path_factory.mktemp("tiered")
    place = TierPlace((directory / "remote").as_uri())
    with broker_on(directory, place) as node:
        tiered_topic(node, "orders", partitions=2)
        produce(node, "orders", {0: 12_000, 1: 12_000}, lambda _, number: b"%d" % number * 50)
        wait_until_all_is_tiered(node, place, "orders")
        yield _Tiered(node, place)


def documented() -> list[str]:
    """The commands of the page."""
    page = (ROOT / "docs" / "spark-audit.md").read_text()
    blocks = re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_every_documented_command_does_what_the_page_says(
    tiered: _Tiered, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tiered.node.directory)
    said: list[str] = []
    for command in documented():
        name, *words = shlex.split(command.replace("127.0.0.1:9092", tiered.node.bootstrap))
        assert name == "tierlog-spark"
        assert main(words) == 0, f"{command}: {capsys.readouterr()}"
        said.append(capsys.readouterr().out)
    assert len(said) == 8
    assert said[0].startswith("would read ")
    assert said[1].endswith(": sound\n")
    assert Path("audit.html").exists()
    assert json.loads(said[3].splitlines()[-1])["sound"]
    assert said[4].startswith("would read ")
    assert Path("profile.html").exists()
    assert "retention.bytes=10GiB" in said[6]
    assert json.loads(said[7].splitlines()[0])["type"] == "forecast"


def test_the_metadata_of_a_running_broker_is_compared(tiered: _Tiered, capsys: Said) -> None:
    node, place = tiered
    sound = audit(place, capsys, "--bootstrap", node.bootstrap)
    assert (sound.code, sound.findings) == (0, [])
    (topic,) = sound.of("topic")
    assert topic["records"] == sum(
        each["last_offset"] - each["first_offset"] + 1 for each in sound.of("segment")
    )
    root = Path(place.url.removeprefix("file://"))
    known = min(root.rglob("*.manifest"))
    manifest = decode_manifest(known.read_bytes())
    unknown = manifest.metadata.segment_id._replace(id=Uuid(b"another segment."))
    another = manifest._replace(metadata=replace(manifest.metadata, segment_id=unknown))
    for suffix in manifest.parts:
        (root / object_key(another.metadata, suffix)).write_bytes(
            (root / object_key(manifest.metadata, suffix)).read_bytes()
        )
    orphan = object_key(another.metadata, MANIFEST_SUFFIX)
    (root / orphan).write_bytes(encode_manifest(another))
    known.unlink()
    found = audit(place, capsys, "--bootstrap", node.bootstrap)
    problems = {each["key"]: each["problem"] for each in found.findings}
    assert "is not in the metadata" in problems[orphan.removesuffix(".manifest")]
    gone = problems[object_key(manifest.metadata, MANIFEST_SUFFIX)]
    assert gone == "the metadata says that the segment is complete, but it is not"
    assert found.code == 1


def test_a_dry_run_says_what_would_be_read(file_tier: TierPlace, capsys: Said) -> None:
    bucket, (first, _, _) = planted()
    bucket.damage(first, "log", 100)
    store(bucket, file_tier)
    (plan,) = audit(file_tier, capsys, "--dry-run").lines
    whole = sum(
        len(content) for key, content in bucket.objects.items() if not key.endswith(MANIFEST_SUFFIX)
    )
    assert plan == {"type": "plan", "segments": 3, "partitions": 1, "bytes": whole}
    assert main(["audit", *file_tier.arguments, "--dry-run"]) == 0
    assert "would read 3 segments of 1 partition" in capsys.readouterr().out


def test_the_page_needs_nothing_else_and_escapes_what_it_shows(
    file_tier: TierPlace, tmp_path: Path, capsys: Said
) -> None:
    bucket, (_, second, _) = planted()
    bucket.damage(second, "log", 150)
    bucket.objects["<script>alert(1)</script>"] = b"?"
    store(bucket, file_tier)
    page = tmp_path / "audit.html"
    assert main(["audit", *file_tier.arguments, "--html", str(page)]) == 1
    assert f"the report is in {page}" in capsys.readouterr().out
    html = page.read_text()
    assert html.count("<img ") == 3
    assert "the batch at offset 13 does not match its CRC" in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert 'src="http' not in html


def test_what_cannot_be_found_out_is_one_sentence(
    file_tier: TierPlace, tmp_path: Path, capsys: Said
) -> None:
    store(planted().bucket, file_tier)
    for words, sentence in (
        (
            [*file_tier.arguments, "--topic", "payments"],
            f"The tier at {file_tier.url} holds no topic payments; it holds orders.",
        ),
        (
            ["--tier", str(tmp_path / "nowhere")],
            f"There is no tier at file://{tmp_path}/nowhere: no segment of any topic is there.",
        ),
        (["--config", "/nowhere"], "The file /nowhere cannot be read: No such file or directory."),
        (
            [*file_tier.arguments, "--html", "/nowhere/audit.html"],
            "--html /nowhere/audit.html: there is no folder /nowhere to write it to.",
        ),
    ):
        assert main(["audit", *words]) == 2
        assert capsys.readouterr().err == f"tierlog: {sentence}\n"


@pytest.mark.requires("go")
def test_a_bucket_that_denies_access_is_one_sentence(s3: VersityGateway, capsys: Said) -> None:
    properties = s3.wrong_credentials()
    assert properties is not None
    prefix = "rsm.config.option."
    options = {n.removeprefix(prefix): v for n, v in properties.items() if n.startswith(prefix)}
    place = TierPlace(s3.location.url, options)
    assert main(["audit", *place.arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert "denied" in line
    assert "another-secret" not in json.dumps(line)
