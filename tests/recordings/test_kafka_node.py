"""Which Kafka a test gets: the mark `recorded` and the option `--kafka` say it."""

from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.tests.recordings import run, sections
from tierlog.tests.recordings.kafka_node import PlayedKafka, RecordedKafka, kafka_node


@pytest.mark.parametrize(
    ("is_recorded", "mode", "kind"),
    [
        (True, run.RECORDED, PlayedKafka),
        (True, run.LIVE, KafkaNode),
        (True, run.RECORD, RecordedKafka),
        *((False, mode, KafkaNode) for mode in run.MODES),
    ],
)
def test_only_a_test_with_a_recording_is_played_or_recorded(
    is_recorded: bool, mode: str, kind: type, tmp_path: Path
) -> None:
    before, chosen = sections.running(), run.chosen()
    try:
        sections.begin_test(sections.Running(tmp_path / "test_it.py", "test_it", is_recorded))
        run.choose(mode)
        assert type(kafka_node(tmp_path, properties={})) is kind
    finally:
        sections.begin_test(before)
        run.choose(chosen)
