"""The file `mounted-topics` in the first log directory: which topic ids came from which mount.

It is written before a topic is made, so that no log of a mounted topic is ever taken for one of our
own, and read at a start, when nothing is known yet of the mounted tiers.
"""

from collections.abc import Mapping

from ...clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from ...storage.files import Files
from ..config.mount_config import MOUNTED_TOPICS_FILE


class MountedTopicsFile:
    """Which topic ids came from which mount: known before their topics are, and after a restart."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{MOUNTED_TOPICS_FILE}"
        self.mount_of: dict[Uuid, str] = {}
        if files.exists(self._path):
            for line in files.read(self._path).decode().splitlines():
                topic_id, _, mount = line.partition(" ")
                self.mount_of[uuid_from_string(topic_id)] = mount

    def of(self, mount: str) -> set[Uuid]:
        """The topic ids of one mount."""
        return {topic_id for topic_id, name in self.mount_of.items() if name == mount}

    def replace(self, mount_of: Mapping[Uuid, str]) -> None:
        """Remember these from now on, durably. Raises OSError."""
        lines = [f"{uuid_to_string(each)} {mount_of[each]}\n" for each in sorted(mount_of)]
        self._files.atomic_replace(self._path, "".join(lines).encode())
        self.mount_of = dict(mount_of)
