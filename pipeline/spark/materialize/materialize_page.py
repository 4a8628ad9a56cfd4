"""The HTML report of a materialize job: a row for each topic."""

from collections.abc import Sequence

from ....clients.text_table import counted
from ..page.report_page import Page, Section
from .topic_tables import HEAD, TopicProgress


def materialize_page(tier: str, rounds: int, topics: Sequence[TopicProgress], made_ms: int) -> str:
    """The HTML of the report after so many rounds."""
    failed = sum(topic.error is not None and not topic.is_missed for topic in topics)
    ordered = sorted(topics, key=_place)
    says = (
        "Topics that failed come first, then those that were not reached. The table holds the "
        "offsets below these, by partition. The lag is the number of offsets in the tier that the "
        "table lacked when the job last looked; the bytes are about those of the segments that "
        "this job has copied; the rounds are those that did not fail."
    )
    rows = [topic.row() for topic in ordered]
    section = Section("Topics", says if rows else "No topic matched.", None, HEAD, rows)
    conclusion = _conclusion(rounds, topics, failed)
    return Page("Materialized topics", tier, made_ms, conclusion, not failed, [section]).html()


def _place(topic: TopicProgress) -> tuple[bool, bool, str]:
    return topic.is_missed or topic.error is None, not topic.is_missed, topic.topic


def _conclusion(rounds: int, topics: Sequence[TopicProgress], failed: int) -> str:
    missed = sum(topic.is_missed for topic in topics)
    behind = sum(topic.lag or 0 for topic in topics)
    extent = ", as far as is known" if any(topic.lag is None for topic in topics) else ""
    parts = [
        f"After {counted(rounds, 'round')}, the tables of {counted(len(topics), 'topic')} are "
        f"{behind:,} offsets behind the tier{extent}",
        *([f"{failed:,} failed in the last round"] if failed else []),
        *([f"{missed:,} not reached before the job was stopped"] if missed else []),
    ]
    return f"{'; '.join(parts)}."
