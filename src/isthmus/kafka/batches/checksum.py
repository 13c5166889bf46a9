"""Updates the CRC32C (RFC 3720) of bytes whose front changes, without reading the other bytes. Pure.

A CRC is linear: the difference of the CRCs of two texts of one length is what the difference of the texts leaves in an
empty register. Behind the changed bytes that difference is zeros, and the effect of zeros on a register is precomputed.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from crc32c import crc32c

_BITS: Final = 32
_ONES: Final = (1 << _BITS) - 1
"""`crc32c(data, value)` inverts all bits of the register, before and after."""
_BLOCK_BYTES: Final = 8192
_ZEROS: Final = memoryview(bytes(_BLOCK_BYTES))
_DOUBLINGS: Final = 18
"""Enough for 2 GiB, the limit of a message."""

_Moves = tuple[list[int], list[int], list[int], list[int]]
"""The effect of zeros on a register: the XOR of the table entries for each of its bytes, the lowest first."""


def update_crc(crc: int, before: bytes | memoryview, after: bytes, behind_bytes: int) -> int:
    """The CRC of `after` followed by `behind_bytes` bytes; `crc` is that of `before`, as long, and the same bytes.

    A wrong `crc` stays wrong, by the same bits.
    """
    register = crc32c(before) ^ crc32c(after)
    register = crc32c(_ZEROS[: behind_bytes % _BLOCK_BYTES], register ^ _ONES) ^ _ONES
    blocks = behind_bytes // _BLOCK_BYTES
    return crc ^ (_move_past(register, blocks) if blocks else register)


def _move_past(register: int, blocks: int) -> int:
    """The register after so many blocks of zeros."""
    for moves in _moves():
        if blocks & 1:
            register = _move(register, moves)
        blocks >>= 1
        if not blocks:
            break
    return register


def _move(register: int, moves: _Moves) -> int:
    first, second, third, fourth = moves
    return first[register & 0xFF] ^ second[register >> 8 & 0xFF] ^ third[register >> 16 & 0xFF] ^ fourth[register >> 24]


@cache
def _moves() -> list[_Moves]:
    """The effects of 1, 2, 4, ... blocks of zeros."""
    found = []
    bits = [crc32c(_ZEROS, 1 << bit ^ _ONES) ^ _ONES for bit in range(_BITS)]
    for _ in range(_DOUBLINGS):
        moves = _by_byte(bits[0:8]), _by_byte(bits[8:16]), _by_byte(bits[16:24]), _by_byte(bits[24:32])
        found.append(moves)
        bits = [_move(bit, moves) for bit in bits]
    return found


def _by_byte(bits: list[int]) -> list[int]:
    values = [0]
    for bit in bits:
        values += [value ^ bit for value in values]
    return values
