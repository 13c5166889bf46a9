"""Requests and answers of a client's connection, as frames."""

from __future__ import annotations

import struct
from typing import Any

from isthmus.gateway.conversation import RequestStream

HEARTBEAT = struct.pack(">ihhih", 10, 12, 4, 99, -1)
SIZES = [1, 5, 10_000]


def passed(way: RequestStream, data: bytes, size: int) -> bytes:
    """What becomes of bytes that come in pieces of this size."""
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(bytes(part) for piece in pieces for part in way.take(memoryview(piece)))


def framed(answer: Any, version: int, *, flexible: bool) -> bytearray:
    """The frame of an answer."""
    payload = struct.pack(">i", 7) + (b"\0" if flexible else b"") + bytes(answer.encode(version=version))
    return bytearray(struct.pack(">i", len(payload)) + payload)
