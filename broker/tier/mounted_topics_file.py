"""The file `mounted-topics` in the first log directory: the mount of each mounted topic id.

It is written before a topic is created, so that the log of a mounted topic is never mistaken for a
local one, and read at startup, when the mounted tiers have not been read yet.
"""

from collections.abc import Mapping

from ...clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from ...storage.files import Files
from ..config.mount_config import MOUNTED_TOPICS_FILE


class MountedTopicsFile:
    """The mount of each mounted topic id, known before the topic exists and after a restart."""

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
        """Replace the contents, durably. Raises OSError."""
        lines = [f"{uuid_to_string(each)} {mount_of[each]}\n" for each in sorted(mount_of)]
        self._files.atomic_replace(self._path, "".join(lines).encode())
        self.mount_of = dict(mount_of)
