"""Flights with schemas: two versions, registered with the primary registry, and read with any other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Final

from confluent_kafka.error import SerializationError
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from demo.flights import Flight
from isthmus.local.apicurio import ApicurioServer

FLIGHTS_MAX: Final = 5_000
"""So many flights of each airport are written, again and again."""
_FIELDS: Final[tuple[Mapping[str, Any], ...]] = (
    {"name": "carrier", "type": "string"},
    {"name": "flight", "type": "long"},
    {"name": "origin", "type": "string"},
    {"name": "dest", "type": "string"},
    {"name": "dep_delay", "type": ["null", "long"], "default": None},
    {"name": "arr_delay", "type": ["null", "long"], "default": None},
)
_VERSIONS: Final = tuple(
    json.dumps({"type": "record", "name": "Flight", "fields": fields}) for fields in (_FIELDS[:-1], _FIELDS)
)


class Primary:
    """The primary registry, which alone is written to."""

    def __init__(self, stack: ExitStack, registry: ApicurioServer, topic: str) -> None:
        self._client = stack.enter_context(SchemaRegistryClient({"url": registry.url}))
        self._context = SerializationContext(topic, MessageField.VALUE)
        self.subject = f"{topic}-value"

    def write(self, airports: Iterable[list[Flight]]) -> list[list[Flight]]:
        """The flights of airports, those of every other one written with the second version of the schema."""
        written = []
        for position, flights in enumerate(airports):
            version = _VERSIONS[position % len(_VERSIONS)]
            self._client.register_schema(self.subject, Schema(version, "AVRO"))
            serialize = AvroSerializer(
                self._client, version, conf={"auto.register.schemas": False, "use.latest.version": False}
            )
            written.append(
                [
                    each._replace(value=serialize(json.loads(each.value), self._context) or b"")
                    for each in flights[:FLIGHTS_MAX]
                ]
            )
        return written


class Reading:
    """A registry as consumers use it."""

    def __init__(self, stack: ExitStack, registry: ApicurioServer, topic: str) -> None:
        self._client = stack.enter_context(SchemaRegistryClient({"url": registry.url}))
        self._deserialize = AvroDeserializer(self._client)
        self._context = SerializationContext(topic, MessageField.VALUE)

    def versions(self, subject: str) -> int:
        """How many versions of a subject it has."""
        try:
            return len(self._client.get_versions(subject))
        except SchemaRegistryError:
            return 0

    def is_flight(self, value: bytes) -> bool:
        """Whether a value can be read with the schemas that are here."""
        try:
            found: object = self._deserialize(value, self._context)
        except (SchemaRegistryError, SerializationError, ValueError):
            return False
        return isinstance(found, dict) and "carrier" in found
