"""The error of a run that does not count."""


class MeasurementError(Exception):
    """A run does not count: a client died, a record was lost, or there was no response."""


def message_and_notes(error: BaseException) -> str:
    """What an error says, with its notes: the ends of the nodes' logs, for example."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])
