"""What each scenario asks, in the words that it has for itself."""

from ..scenarios.catalogue import ALL


def summary_of(name: str) -> str:
    """The scenario's summary; empty for one that this version does not know (any more)."""
    summaries = [each.summary for each in ALL if each.name == name]
    return f"{summaries[0][:1].upper()}{summaries[0][1:]}." if summaries else ""
