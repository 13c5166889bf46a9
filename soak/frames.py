"""What a gateway does with bytes that nobody should send it: frames that are random, cut, swollen, or out of step.

    python -m soak.frames [--seed 1] [--minutes 60]

Each seed is a conversation: requests of every kind that passes, and answers to them, of which some are spoilt. It goes
through the gateway's code at once, and again cut into pieces elsewhere. Whatever comes in, it passes or is refused; and
where the pieces end changes nothing of what comes out.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from dataclasses import replace
from typing import Final

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import AnswerStream, Conversation, NotPassed, RequestStream
from isthmus.gateway.frames.messages import FLEXIBLE_FROM, PASSING
from isthmus.gateway.frames.serving import Serving

_SIZES: Final = (0, 1, -1, 7, 8, 0x7FFFFFFF, -0x80000000, 1 << 30)
_LIMITS: Final = replace(DEFAULTS, frame_bytes=1 << 20)
_BODY_MAX: Final = 400


class LawBroken(Exception):
    """A conversation in which the gateway did what it never may."""


def main() -> int:
    """Have conversations until the time is over; 1 with the seed of the first one that broke a law."""
    parser = argparse.ArgumentParser(prog="python -m soak.frames")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    given = parser.parse_args()
    seed, end = given.seed, time.monotonic() + given.minutes * 60
    while time.monotonic() < end:
        try:
            converse(seed)
        except LawBroken as broken:
            sys.stdout.write(f"seed {seed}: {broken}\n")
            return 1
        seed += 1
    sys.stdout.write(f"seeds {given.seed} to {seed - 1}: no law broken\n")
    return 0


def converse(seed: int) -> None:
    """One conversation.

    :raises LawBroken: Something else came out than may.
    """
    chance = random.Random(seed)
    requests = [_request(chance, number) for number in range(chance.randrange(1, 9))]
    answers = [_answer(chance, frame) for frame in requests]
    sent, answered = b"".join(requests), b"".join(answers)
    whole = _through([sent], [answered])
    cut = _through(_pieces(chance, sent), _pieces(chance, answered))
    ways = {"to the broker": (whole[0], cut[0], sent), "to the client": (whole[1], cut[1], answered)}
    for way, (one, other, came) in ways.items():
        # What a refusal found in one piece goes nowhere, and how much that is depends on the pieces. So it does of what
        # never comes to its end.
        if not (one.startswith(other) or other.startswith(one)) or (one != other and not whole[2] and _is_whole(came)):
            raise LawBroken(f"what goes {way} depends on where pieces end")
    if bool(whole[2]) != bool(cut[2]) and _is_whole(sent) and _is_whole(answered):
        raise LawBroken(f"whether it is refused depends on where pieces end: {whole[2] or cut[2]}")


def _is_whole(data: bytes) -> bool:
    """Whether the last frame ends where the data does."""
    at = 0
    while at + 4 <= len(data):
        at += 4 + max(struct.unpack_from(">i", data, at)[0], 0)
    return at == len(data)


def _through(requests: list[bytes], answers: list[bytes]) -> tuple[bytes, bytes, str]:
    """What comes out for the broker and for the client, and why it was refused."""
    _, sending, answering = Conversation.create(_LIMITS, lambda *_: ("gateway.example", 19092), Serving(tag=1))
    there, back = bytearray(), bytearray()
    try:
        for piece in requests:
            there += _passed(sending, piece)
            back += b"".join(map(bytes, answering.ready()))
        for piece in answers:
            back += _passed(answering, piece)
    except NotPassed as refusal:
        return bytes(there), bytes(back), str(refusal) or "refused"
    except Exception as error:
        raise LawBroken(f"{type(error).__name__}: {error}") from error
    return bytes(there), bytes(back), ""


def _passed(way: RequestStream | AnswerStream, piece: bytes) -> bytes:
    return b"".join(map(bytes, way.take(memoryview(piece))))


def _pieces(chance: random.Random, data: bytes) -> list[bytes]:
    found, at = list[bytes](), 0
    while at < len(data):
        size = chance.choice((1, 2, 3, 7, 50, 1000))
        found.append(data[at : at + size])
        at += size
    return found


def _request(chance: random.Random, number: int) -> bytes:
    key = chance.choice((*PASSING, *FLEXIBLE_FROM, *FLEXIBLE_FROM))
    version = chance.randrange(PASSING[key].version_max + 1)
    acks = struct.pack(">hhh", -1, chance.choice((-1, 0, 1)), chance.choice((-1, 0, 1)))
    body = chance.choice((b"\xff\xff", b"\xff\xff\0", b"\0\4java\0", acks)) + _bytes(chance)
    return _spoilt(chance, struct.pack(">hhi", key, version, number) + body)


def _answer(chance: random.Random, request: bytes) -> bytes:
    """An answer to a request, as it may begin."""
    correlation = request[8:12].ljust(4, b"\0")
    return _spoilt(chance, correlation + bytes(chance.randrange(12)) + _bytes(chance))


def _bytes(chance: random.Random) -> bytes:
    """A few bytes, small numbers among them: as lengths they lead on."""
    size = chance.randrange(_BODY_MAX)
    return chance.choice((bytes(size), chance.randbytes(size), bytes(chance.choices(range(6), k=size))))


def _spoilt(chance: random.Random, payload: bytes) -> bytes:
    """The frame of it, with something wrong now and then."""
    size = len(payload)
    fault = chance.randrange(20)
    if fault == 0:
        size = chance.choice((*_SIZES, size + 1, size - 1))
    elif fault == 1:
        payload = payload[: chance.randrange(len(payload))]
    elif fault == 2:
        at = chance.randrange(len(payload))
        payload = payload[:at] + chance.randbytes(1) + payload[at + 1 :]
    return struct.pack(">i", size) + payload


if __name__ == "__main__":
    sys.exit(main())
