"""CRC32C (RFC 3720) of bytes that change at their front, from the CRC they had: the others are not looked at. Pure.

A CRC is linear: how those of two texts of one length differ is what the difference of the texts leaves in an empty
register. Behind the changed bytes that difference is zeros, and how zeros move a register is known beforehand.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from crc32c import crc32c

_BITS: Final = 32
_ONES: Final = (1 << _BITS) - 1
"""`crc32c(data, value)` turns all bits of the register over, before and after."""
_BLOCK_BYTES: Final = 8192
_ZEROS: Final = memoryview(bytes(_BLOCK_BYTES))
_DOUBLINGS: Final = 18
"""Enough for 2 GiB, more than a message can have."""

_Moves = tuple[list[int], list[int], list[int], list[int]]
"""Where zeros move a register: the XOR of what is found for the value of each of its bytes, the lowest first."""


def changed(crc: int, before: bytes | memoryview, after: bytes, behind_bytes: int) -> int:
    """The CRC of `after` and of `behind_bytes` more, where `crc` is that of `before`, as long, and of the same ones.

    A `crc` that is wrong stays wrong, by the same bits.
    """
    register = crc32c(before) ^ crc32c(after)
    register = crc32c(_ZEROS[: behind_bytes % _BLOCK_BYTES], register ^ _ONES) ^ _ONES
    blocks = behind_bytes // _BLOCK_BYTES
    return crc ^ (_past(register, blocks) if blocks else register)


def _past(register: int, blocks: int) -> int:
    """The register behind so many blocks of zeros."""
    for moves in _moves():
        if blocks & 1:
            register = _moved(register, moves)
        blocks >>= 1
        if not blocks:
            break
    return register


def _moved(register: int, moves: _Moves) -> int:
    first, second, third, fourth = moves
    return first[register & 0xFF] ^ second[register >> 8 & 0xFF] ^ third[register >> 16 & 0xFF] ^ fourth[register >> 24]


@cache
def _moves() -> list[_Moves]:
    """The moves by 1, 2, 4, ... blocks of zeros."""
    found = []
    bits = [crc32c(_ZEROS, 1 << bit ^ _ONES) ^ _ONES for bit in range(_BITS)]
    for _ in range(_DOUBLINGS):
        moves = _by_byte(bits[0:8]), _by_byte(bits[8:16]), _by_byte(bits[16:24]), _by_byte(bits[24:32])
        found.append(moves)
        bits = [_moved(bit, moves) for bit in bits]
    return found


def _by_byte(bits: list[int]) -> list[int]:
    values = [0]
    for bit in bits:
        values += [value ^ bit for value in values]
    return values
