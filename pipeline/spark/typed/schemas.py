"""The schemas of subjects, asked of a registry once, or read from a file.

    schemas = Schemas(SchemaRegistry("http://127.0.0.1:8081"))
    typed(rows, value=schemas.value_of("orders"))

A schema of an id never changes, so each is asked for once; only the list of a subject's versions
can grow, which `refresh` asks for again. `save` writes what is known into a file, for clusters that
do not reach the registry.
"""

from collections.abc import Iterable, Mapping

from .registered_schema import (
    RegisteredSchema,
    SchemaError,
    Subject,
    id_of,
    kind_of,
    list_of,
    object_of,
    subject_of,
    text_of,
)
from .registry import SchemaRegistry
from .schema_file import read_subjects, write_subjects

MAX_VERSIONS = 1000
MAX_REFERENCES = 100


class Schemas:
    """The subjects of a registry or of a file, as far as they were asked for."""

    def __init__(self, registry: SchemaRegistry | None = None) -> None:
        """No subjects yet. Without a registry there are only those of a file."""
        self._registry = registry
        self._subjects: dict[str, Subject] = {}
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}

    @classmethod
    def of_file(cls, path: str) -> "Schemas":
        """What `save` wrote. Raises SchemaError if the file holds anything else."""
        schemas = cls()
        schemas._subjects = read_subjects(path)
        return schemas

    def value_of(self, topic: str) -> Subject:
        """The subject of a topic's values by Kafka's TopicNameStrategy."""
        return self.subject(f"{topic}-value")

    def key_of(self, topic: str) -> Subject:
        """The subject of a topic's keys by Kafka's TopicNameStrategy."""
        return self.subject(f"{topic}-key")

    def subject(self, name: str, *, ids: Iterable[int] = ()) -> Subject:
        """A subject as it is known; the registry is asked if it is not.

        Args:
            name: its name.
            ids: ids of schemas that records have too, though they are not versions of it.

        Raises:
            SchemaError: the registry or the subject is not there, or a schema cannot be used.
        """
        if name not in self._subjects:
            if self._registry is None:
                raise SchemaError(f"The file of schemas has no subject {name!r}")
            self._subjects[name] = self._subject_of(self._registry, name)
        subject = self._subjects[name]
        added = [each for each in ids if each not in subject.schemas]
        if not added:
            return subject
        if self._registry is None:
            raise SchemaError(f"The file of schemas has no schema {added[0]} of {name!r}")
        more = {each: self._schema_of_id(self._registry, each) for each in added}
        subject = subject_of(name, subject.newest.schema_id, {**subject.schemas, **more})
        self._subjects[name] = subject
        return subject

    def refresh(self) -> bool:
        """Ask the registry for new versions of the known subjects; whether there were any.

        `subject` then gives the new ones. Schemas of a file stay as they are. Raises SchemaError,
        and changes nothing, if the registry does not answer.
        """
        if self._registry is None:
            return False
        news: dict[str, Subject] = {}
        for name, before in self._subjects.items():
            after = self._subject_of(self._registry, name)
            # A registry may forget versions: their ids stay known.
            joined = {**before.schemas, **after.schemas}
            news[name] = subject_of(name, after.newest.schema_id, joined)
        has_changed = news != self._subjects
        self._subjects = news
        return has_changed

    def save(self, path: str) -> None:
        """Write the subjects known so far into a file, for `of_file`."""
        write_subjects(path, self._subjects.values())

    def _subject_of(self, registry: SchemaRegistry, name: str) -> Subject:
        versions, newest = registry.versions(name)
        if len(versions) > MAX_VERSIONS:
            raise SchemaError(f"Subject {name!r} has more than {MAX_VERSIONS} versions")
        schemas: dict[int, RegisteredSchema] = {}
        for version in versions:
            schema = self._schema_of_version(registry, name, version)
            schemas[schema.schema_id] = schema
        return subject_of(name, self._versions[name, newest].schema_id, schemas)

    def _schema_of_version(
        self, registry: SchemaRegistry, name: str, version: int
    ) -> RegisteredSchema:
        if (name, version) not in self._versions:
            what = f"Version {version} of subject {name!r}"
            stated = registry.version(name, version)
            schema_id = id_of(stated.get("id"), f"The id of {what}")
            self._versions[name, version] = _schema(registry, schema_id, stated, what)
        return self._versions[name, version]

    def _schema_of_id(self, registry: SchemaRegistry, schema_id: int) -> RegisteredSchema:
        what = f"schema {schema_id}"
        return _schema(registry, schema_id, registry.schema(schema_id), what)


def _schema(
    registry: SchemaRegistry, schema_id: int, stated: Mapping[str, object], what: str
) -> RegisteredSchema:
    kind = kind_of(stated.get("schemaType"), what)
    text = text_of(stated.get("schema"), f"The schema of {what}")
    return RegisteredSchema(schema_id, kind, text, _references(registry, stated, what))


def _references(
    registry: SchemaRegistry, stated: Mapping[str, object], what: str
) -> dict[str, str]:
    """The texts that a schema refers to, and those that they refer to, by name."""
    texts: dict[str, str] = {}
    origins: dict[str, tuple[str, int]] = {}
    waiting = [stated]
    while waiting:
        for each in list_of(waiting.pop().get("references") or [], f"The references of {what}"):
            reference = object_of(each, f"A reference of {what}")
            name = text_of(reference.get("name"), f"The name of a reference of {what}")
            subject = text_of(reference.get("subject"), f"The subject of a reference of {what}")
            version = id_of(reference.get("version"), f"The version of a reference of {what}")
            if (origin := origins.setdefault(name, (subject, version))) != (subject, version):
                raise SchemaError(
                    f"{what} refers to {name!r} as {origin[0]!r} version {origin[1]} and as "
                    f"{subject!r} version {version}"
                )
            if name in texts:
                continue
            if len(texts) == MAX_REFERENCES:
                raise SchemaError(f"{what} refers to more than {MAX_REFERENCES} schemas")
            answer = registry.version(subject, version)
            texts[name] = text_of(answer.get("schema"), f"The schema of {subject!r}")
            waiting.append(answer)
    return texts
