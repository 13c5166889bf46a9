"""Records that name a schema, and registries that hold it."""

from __future__ import annotations

import json

from testing.brokers.registry import RegistryServer


def configuration_of(east: str, west: str, more: str = "", *, servers: str = "127.0.0.1:2") -> str:
    """The file of two clusters that are away, unless the second has other `servers`, and their registries."""
    return (
        f"clusters: {{east: {{bootstrap_servers: '127.0.0.1:1', schema_registry: {{url: '{east}'}}}}, "
        f"west: {{bootstrap_servers: '{servers}', schema_registry: {{url: '{west}'}}}}}}\n"
        "links: [{name: east-west, source: east, target: west, topics: {include: [orders]}}]\n"
        f"schemas: {{primary: east{more}}}\n"
    )


def record(name: str, *fields: str) -> str:
    """An Avro record with optional fields."""
    listed = [{"name": field, "type": "string", "default": ""} for field in fields]
    return json.dumps({"type": "record", "name": name, "namespace": "com.acme", "fields": listed})


def held(server: RegistryServer) -> list[tuple[str, int, int, bool]]:
    """What a registry holds."""
    return [(one.subject, one.version, one.id, one.is_deleted) for _, one in sorted(server.store.versions.items())]
