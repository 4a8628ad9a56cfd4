"""Records of Confluent's serializers, and two versions of an Avro schema for them."""

import json
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "old", "type": "string"}],
}
NEWER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
# Their constructors have no types.
avro_serializer: Callable[..., Any] = cast("Any", AvroSerializer)
json_serializer: Callable[..., Any] = cast("Any", JSONSerializer)


class Producer:
    """Confluent's serializers, for a topic of its own."""

    def __init__(self, url: str) -> None:
        self.topic = f"orders-{uuid4().hex}"
        self.client = SchemaRegistryClient({"url": url})
        self._value = SerializationContext(self.topic, MessageField.VALUE)

    def avro(self, schema: object, *values: object) -> list[bytes]:
        write = avro_serializer(self.client, json.dumps(schema))
        return [bytes_of(write(value, self._value)) for value in values]

    def json(self, schema: object, *values: object) -> list[bytes]:
        write = json_serializer(json.dumps(schema), self.client)
        return [bytes_of(write(value, self._value)) for value in values]


def bytes_of(written: object) -> bytes:
    assert isinstance(written, bytes)
    return written
