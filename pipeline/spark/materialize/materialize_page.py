"""The HTML report of a materialize job: a row for each topic."""

from collections.abc import Sequence

from ....clients.text_table import counted
from ..page.report_page import Page, Section
from .topic_tables import HEAD, TopicProgress


def materialize_page(tier: str, rounds: int, topics: Sequence[TopicProgress], made_ms: int) -> str:
    """The HTML of the report after so many rounds."""
    failed = sum(topic.error is not None for topic in topics)
    behind = sum(topic.lag or 0 for topic in topics)
    conclusion = (
        f"After {counted(rounds, 'round')}, the tables of {counted(len(topics), 'topic')} are "
        f"{behind:,} offsets behind the tier"
    )
    conclusion += f"; {failed} failed in the last round." if failed else "."
    ordered = sorted(topics, key=lambda each: (each.error is None, each.topic))
    says = (
        "Topics that failed come first. The table holds the offsets below these, by partition. "
        "The lag is the number of offsets in the tier that the table lacked at the end of the "
        "topic's last round; the bytes are about those of the segments that this job has copied."
    )
    rows = [topic.row() for topic in ordered]
    section = Section("Topics", says, None, HEAD, rows)
    return Page("Materialized topics", tier, made_ms, conclusion, not failed, [section]).html()
