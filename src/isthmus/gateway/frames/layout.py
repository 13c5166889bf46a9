"""Read and replace fields of messages in place. Pure: bytes in, bytes out.

Only the needed fields are decoded, and all other bytes stay unchanged, including unknown tags.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from isthmus.kafka.connect.frames import Buffer, uvarint

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class Short(Exception):
    """The message is not complete, and ends before a field that has to be read."""


class Edit(NamedTuple):
    """The bytes from `begin` to `end` become `replacement`."""

    begin: int
    end: int
    replacement: bytes

    @property
    def growth_bytes(self) -> int:
        """The growth of the message."""
        return len(self.replacement) - (self.end - self.begin)


class Endpoint(NamedTuple):
    """An address of a broker in a message, host and port being the bytes from `begin` to `end`."""

    node_id: int
    host: str
    port: int
    begin: int
    end: int


class MessageCursor:
    """A cursor in the payload of a frame. Reading moves it on.

    :raises Short: In every step: the payload ends before.
    :raises ValueError: In every step: this is no such message.
    """

    __slots__ = ("_data", "at", "flexible")

    def __init__(self, data: memoryview, at: int, *, flexible: bool) -> None:
        self._data = data
        self.at = at
        self.flexible = flexible

    def skip(self, size: int) -> int:
        """Skip `size` bytes; return where they began."""
        begin, end = self.at, self.at + size
        if size < 0:
            raise ValueError("a negative length")
        if end > len(self._data):
            raise Short
        self.at = end
        return begin

    def int8(self) -> int:
        """The number here, 0 to 255."""
        return int(self._data[self.skip(1)])

    def int16(self) -> int:
        """The number here."""
        return int(_INT16.unpack_from(self._data, self.skip(2))[0])

    def int32(self) -> int:
        """The number here."""
        return int(_INT32.unpack_from(self._data, self.skip(4))[0])

    def int64(self) -> int:
        """The number here."""
        return int(_INT64.unpack_from(self._data, self.skip(8))[0])

    def uvarint(self) -> int:
        """The number here."""
        try:
            value, self.at = uvarint(self._data, self.at)
        except IndexError:
            raise Short from None
        return value

    def count(self) -> int:
        """Read the length of an array, 0 for a null array."""
        return max(self.uvarint() - 1 if self.flexible else self.int32(), 0)

    def text(self) -> str | None:
        """Read a nullable string."""
        size = self.uvarint() - 1 if self.flexible else self.int16()
        if size < 0:
            return None
        begin = self.skip(size)
        return str(self._data[begin : self.at], "utf-8")

    def blob(self) -> bytes:
        """Read nullable bytes; empty for null."""
        size = self.count()
        begin = self.skip(size)
        return bytes(self._data[begin : self.at])

    def skip_text(self) -> None:
        """Skip a nullable string."""
        self.skip(max(self.uvarint() - 1 if self.flexible else self.int16(), 0))

    def skip_tags(self) -> None:
        """Skip the tags, if the message is flexible."""
        if self.flexible:
            for _ in self.tags():
                pass

    def skipped_tags(self) -> bytes:
        """Skip the tags, and return their bytes."""
        begin = self.at
        self.skip_tags()
        return bytes(self._data[begin : self.at])

    def tags(self) -> Iterator[tuple[int, int, int]]:
        """Yield each tag: its number, and where its size begins and its value ends. The cursor ends behind the tags."""
        for _ in range(self.uvarint()):
            tag, size_at = self.uvarint(), self.at
            size = self.uvarint()
            begin = self.at
            yield tag, size_at, begin + size
            self.at = begin
            self.skip(size)

    def endpoint(self) -> Endpoint:
        """Read the id of a broker, its host and its port."""
        node_id, begin = self.int32(), self.at
        host = self.text() or ""
        return Endpoint(node_id, host, self.int32(), begin, self.at)


def response_body(payload: memoryview, *, flexible: bool, has_tags: bool) -> MessageCursor:
    """Return a cursor at the body of an answer; `has_tags` says whether its header may have tags."""
    cursor = MessageCursor(payload, _INT32.size, flexible=flexible)
    if has_tags:
        cursor.skip_tags()
    return cursor


def request_body(payload: memoryview, *, flexible: bool) -> MessageCursor:
    """Return a cursor at the body of a request, behind key, version, correlation id, client id and tags."""
    cursor = MessageCursor(payload, 8, flexible=False)
    cursor.skip_text()
    cursor.flexible = flexible
    cursor.skip_tags()
    return cursor


def written_text(text: str | None, *, flexible: bool) -> bytes:
    """Encode a nullable string."""
    if text is None:
        return b"\0" if flexible else _INT16.pack(-1)
    encoded = text.encode()
    head = written_uvarint(len(encoded) + 1) if flexible else _INT16.pack(len(encoded))
    return head + encoded


def written_uvarint(value: int) -> bytes:
    """Encode a number as `uvarint` reads it."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def written_count(count: int, *, flexible: bool) -> bytes:
    """Encode the length of an array, -1 for a null array."""
    return written_uvarint(count + 1) if flexible else _INT32.pack(count)


def written_address(host: str, port: int, *, flexible: bool) -> bytes:
    """Encode host and port."""
    return written_text(host, flexible=flexible) + _INT32.pack(port)


def splice(data: memoryview, edits: Sequence[Edit]) -> list[Buffer]:
    """Return the bytes with all edits, which are in order; unchanged parts are not copied."""
    found: list[Buffer] = []
    at = 0
    for edit in edits:
        found += (data[at : edit.begin], edit.replacement)
        at = edit.end
    found.append(data[at:])
    return found
