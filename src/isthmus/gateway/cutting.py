"""Requests out of which something is cut, and what is put into the answers for it. Pure: bytes in, bytes out."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from isthmus.gateway.layout import Edit, MessageCursor, spliced, written_count
from isthmus.gateway.refusing import BodyWriter, NamedItem, ReadItem

_SIZE: Final = struct.Struct(">i")


class Insertion(NamedTuple):
    """What is put into a broker's answer: so many items, in front of those of the array that begins `at` this many
    bytes behind where the body does.
    """

    at: int
    items: int
    written: bytes


class Ruling(NamedTuple):
    """What becomes of a request about names of which something is refused. With an `answer` nothing of it is forwarded;
    else brokers get `forwarded` in its place, `before` that another request whose answer nobody waits for, and their
    answer the `insertion`. If it `ends_connection` the client learns by that what it cannot be answered.
    """

    answer: bytes = b""
    before: bytes = b""
    forwarded: bytes = b""
    insertion: Insertion | None = None
    ends_connection: bool = False


def items_of(body: MessageCursor, count: int, read: ReadItem) -> list[NamedItem]:
    """The next items of a request, each with where it is.

    :raises Short: More of it is needed.
    """
    found = []
    for _ in range(count):
        begin = body.at
        found.append(read(body)._replace(begin=begin, end=body.at))
    return found


def inserted(body: MessageCursor, insertion: Insertion) -> list[Edit]:
    """What becomes other in an answer of which this is the body.

    :raises Short: More of it is needed.
    """
    body.skip(insertion.at)
    begin = body.at
    count = body.count() + insertion.items
    return [Edit(begin, body.at, written_count(count, flexible=body.flexible) + insertion.written)]


def edited(frame: memoryview, edits: Sequence[Edit]) -> bytes:
    """The frame of a request with these edits of its payload."""
    payload = b"".join(spliced(frame[_SIZE.size :], edits))
    return _SIZE.pack(len(payload)) + payload


def framed(frame: memoryview, body: BodyWriter) -> bytes:
    """Our answer to the request in this frame."""
    payload = bytes(frame[8:12]) + (b"\0" if body.flexible else b"") + bytes(body.found)
    return _SIZE.pack(len(payload)) + payload
