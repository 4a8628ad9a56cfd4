"""Properties on their way to a cluster's process: a command line is for all to see."""

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from .cluster_plan import properties_text


@contextmanager
def open_properties(properties: Mapping[str, str]) -> Generator[int]:
    """A properties file without a name, as a descriptor at its start for a child to inherit.

    Raises OSError.
    """
    with tempfile.TemporaryFile() as file:
        # What is not UTF-8 is refused by the process that reads it.
        file.write(properties_text(properties).encode(errors="surrogateescape"))
        file.seek(0)
        yield file.fileno()
