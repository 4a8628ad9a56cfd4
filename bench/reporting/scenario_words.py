"""The scenarios' own summaries, for the report."""

from ..scenarios.catalogue import ALL


def summary_of(name: str) -> str:
    """The scenario's summary; empty if this version does not have it."""
    summaries = [each.summary for each in ALL if each.name == name]
    return f"{summaries[0][:1].upper()}{summaries[0][1:]}." if summaries else ""
