"""Cut items out of requests, and insert their refusals into the answers. Pure: bytes in, bytes out."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from isthmus.gateway.frames.layout import Edit, MessageCursor, splice, written_count
from isthmus.gateway.frames.refusing import BodyWriter, NamedItem, ReadItem

_SIZE: Final = struct.Struct(">i")


class Insertion(NamedTuple):
    """Items to insert into a broker's answer, in front of those of the array that begins `at` this offset."""

    at: int
    items: int
    written: bytes


class Ruling(NamedTuple):
    """The ruling on a request with names of which some are refused. With an `answer` nothing is forwarded; otherwise
    brokers get `forwarded` in its place, `before` it another request whose answer is dropped, and the `insertion` goes
    into their answer. It `ends_connection` if the client expects no answer and learns of the refusal only by that.
    """

    answer: bytes = b""
    before: bytes = b""
    forwarded: bytes = b""
    insertion: Insertion | None = None
    ends_connection: bool = False


def items_of(body: MessageCursor, count: int, read: ReadItem) -> list[NamedItem]:
    """Read the next items of a request, each with its place.

    :raises Short: More of it is needed.
    """
    found = []
    for _ in range(count):
        begin = body.at
        found.append(read(body)._replace(begin=begin, end=body.at))
    return found


def insert_items(body: MessageCursor, insertion: Insertion) -> list[Edit]:
    """Return the edits that insert the items into an answer with this body.

    :raises Short: More of it is needed.
    """
    body.skip(insertion.at)
    begin = body.at
    count = body.count() + insertion.items
    return [Edit(begin, body.at, written_count(count, flexible=body.flexible) + insertion.written)]


def edit_request(frame: memoryview, edits: Sequence[Edit]) -> bytes:
    """Return the frame of a request with these edits of its payload."""
    payload = b"".join(splice(frame[_SIZE.size :], edits))
    return _SIZE.pack(len(payload)) + payload


def build_answer(frame: memoryview, body: BodyWriter) -> bytes:
    """Build our answer to the request in this frame."""
    payload = bytes(frame[8:12]) + (b"\0" if body.flexible else b"") + bytes(body.found)
    return _SIZE.pack(len(payload)) + payload
