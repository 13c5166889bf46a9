"""Frames of every message, as Kafka's own definitions write them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from isthmus.gateway.conversation import RequestStream
from isthmus.gateway.frames.messages import PASSING
from tests.integration.gateway.definitions import (
    Definition,
    definitions,
)


def elsewhere(node: int, host: str, port: int) -> tuple[str, int]:
    """Where clients are led to."""
    return f"gateway-of-{host[:9]}.example", 19092 + node


def pieces(data: bytes, chance: random.Random) -> Iterator[memoryview]:
    """The bytes as a network may bring them."""
    at = 0
    while at < len(data):
        size = chance.choice((1, 2, 5, 40, 1000, 100_000))
        yield memoryview(data)[at : at + size]
        at += size


def answer(definition: Definition, version: int, body: bytes, correlation: int, *, tags: bytes) -> bytes:
    """The frame of an answer."""
    header = struct.pack(">i", correlation) + (tags if version in definition.flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def request(definition: Definition, version: int, body: bytes, correlation: int, client: bytes | None) -> bytes:
    """The frame of a request."""
    name = struct.pack(">h", -1) if client is None else struct.pack(">h", len(client)) + client
    tags = b"\0" if version in definition.flexible else b""
    head = struct.pack(">hhi", definition.key, version, correlation) + name + tags
    return struct.pack(">i", len(head) + len(body)) + head + body


def passed(requests: RequestStream, sent: bytes, chance: random.Random) -> bytes:
    """What is forwarded of a request, however its bytes arrive."""
    return b"".join(bytes(part) for piece in pieces(sent, chance) for part in requests.take(piece))


def versions_of(key: int) -> range:
    """Those that are offered, as far as the newest broker knows them."""
    found, passing = definitions("Request")[key].versions, PASSING[key]
    return range(max(found[0], passing.version_min), passing.version_max + 1)
