"""Copy flags: the levels of a distribution tree at which a message has been distributed (Axual's model).

Level n has the bit `1 << (n - 1)`, and its distributors check that and all lower ones, `(1 << n) - 1`: if any is set
the message was distributed at this level or came down past it, and is not copied again. A copy has the bit of its level
added. So from a cluster where a message came in it goes to all levels, and from there on only downwards.

The lowest flag alone decides, and that of a copy is the bit of the level that made it. Higher flags show the way of a
message, so a reader that knows the distributor which wrote it needs no other flags.

Without a header the producer id of a batch shows its author: ids of distributors are chosen, from a range in which no
broker gives any, and contain the level. So flags cost nothing, and a reader needs nothing but the header of a batch.

As a record header the flags are a number of a fixed width, big-endian. A header of another width, or a second one, is
invalid: it counts as absent, and is replaced by the first copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus.errors import ConfigError

_BITS_PER_BYTE: Final = 8
HEADER_BYTES_MAX: Final = 8
_DISTRIBUTORS: Final = 0x20
"""The highest byte of a distributor's producer id. Brokers give ids from 0 on; those from 2^62 on are `lone` ones."""
_LEVEL_BITS: Final = 8
NUMBER_BITS: Final = 48
"""The number of random bits in a distributor's producer id."""


def bit(level: int) -> int:
    """The flag of a level, from 1."""
    return 1 << (level - 1)


def mask(level: int) -> int:
    """Return the flags that a distributor of a level checks."""
    return (1 << level) - 1


def is_to_copy(flags: int, level: int) -> bool:
    """Return whether a distributor of a level copies a record with these flags."""
    return not flags & mask(level)


def add_flag(flags: int, level: int) -> int:
    """The flags of the copy."""
    return flags | bit(level)


def distributor_producer_id(level: int, number: int) -> int:
    """The producer id of a distributor of this level (up to 64). `number` is random, of `NUMBER_BITS` bits."""
    return (_DISTRIBUTORS << (_LEVEL_BITS + NUMBER_BITS)) | (level << NUMBER_BITS) | number


def level_of(producer_id: int) -> int:
    """The level of the distributor that has this producer id, 0 for any other producer."""
    high = producer_id >> NUMBER_BITS
    return high & 0xFF if high >> _LEVEL_BITS == _DISTRIBUTORS else 0


def is_done_with(producer_id: int, level: int) -> bool:
    """Return whether a distributor of a level ignores a batch of this producer. 0 is the level of no distributor."""
    return 0 < level_of(producer_id) <= level


class ReadFlags(NamedTuple):
    """The flags of a record, and whether it had an invalid header."""

    flags: int
    is_malformed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagsHeader:
    """The format of flags in a record's headers.

    :raises ConfigError: It has no name, or a width that no number has.
    """

    name: str = "copy-flags"
    width_bytes: int = 1

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigError("the header of copy flags has no name", hint="Name it, such as copy-flags.")
        if not 1 <= self.width_bytes <= HEADER_BYTES_MAX:
            raise ConfigError(
                f"copy flags cannot be {self.width_bytes} bytes wide",
                hint=f"One to {HEADER_BYTES_MAX} bytes hold 8 to {HEADER_BYTES_MAX * _BITS_PER_BYTE} levels.",
            )

    @property
    def level_max(self) -> int:
        """The highest level that has a bit in it."""
        return self.width_bytes * _BITS_PER_BYTE

    def read(self, headers: Sequence[tuple[str, bytes | None]]) -> ReadFlags:
        """Read the flags from headers; none without a valid header."""
        found = [value for name, value in headers if name == self.name]
        if not found:
            return ReadFlags(0, is_malformed=False)
        value = found[0]
        if len(found) > 1 or value is None or len(value) != self.width_bytes:
            return ReadFlags(0, is_malformed=True)
        return ReadFlags(int.from_bytes(value), is_malformed=False)

    def write_flags(self, headers: Sequence[tuple[str, bytes | None]], flags: int) -> list[tuple[str, bytes | None]]:
        """Return the headers of a copy: all others unchanged, in their order, and one with the flags at the end."""
        return [each for each in headers if each[0] != self.name] + [(self.name, flags.to_bytes(self.width_bytes))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection of a distributor: its level, and the header that holds the flags of records, if there is one."""

    level: int
    flags: FlagsHeader | None = None
