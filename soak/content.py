"""Records that tell who they are: each has an id, and a digest of itself."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

ID: Final = "id"
DIGEST: Final = "digest"
_DIGEST_BYTES: Final = 16

Headers = Sequence[tuple[str, bytes | None]]


class Content(NamedTuple):
    """A record as it is produced. `timestamp` is in ms."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What the records of a writer look like: values of up to `value_bytes`, `keys` different keys (0: some have none),
    a share of `tombstones`, and so much older (ms) than now. `is_json`: values are JSON objects, of which a share of
    `odd` ones has a `text` that is no number.
    """

    value_bytes: int = 200
    keys: int = 0
    tombstones: float = 0.05
    age_ms: int = 0
    is_json: bool = False
    odd: float = 0.0


def record_id(writer: str, partition: int, number: int) -> str:
    """The id of a writer's record in a partition, unique in a run."""
    return f"{writer}.{partition}.{number}"


def made(identity: str, style: Style, timestamp: int) -> Content:
    """The record with this id; what is in it follows from the arguments."""
    chance = random.Random(identity)
    choose = chance.random
    if style.keys:
        key: bytes | None = b"key-%d" % chance.randrange(style.keys)
    else:
        key = None if choose() < 0.2 else b"" if choose() < 0.1 else b"key-%d" % chance.randrange(1000)
    value: bytes | None = None
    if choose() >= style.tombstones:
        size = chance.randrange(style.value_bytes + 1)
        # Half of it can be compressed, so that codecs make batches of all sizes.
        noise = hashlib.shake_128(identity.encode()).digest(size // 2)
        if style.is_json:
            value = _fields(identity, style, noise, chance)
        else:
            value = b"" if choose() < 0.05 else identity.encode() + b"|" + noise + b"." * (size - size // 2)
    headers: list[tuple[str, bytes | None]] = [(ID, identity.encode())]
    if choose() < 0.2:
        headers += [("z", b"first"), ("a", None), ("z", b""), ("z", b"first"), ("ключ", b"%d" % timestamp)]
    headers.append((DIGEST, _digest(key, value, headers, timestamp)))
    return Content(key, value, headers, timestamp)


def _fields(identity: str, style: Style, noise: bytes, chance: random.Random) -> bytes:
    fields = {
        "id": identity,
        "kind": chance.choice("abc"),
        "email": f"{identity}@example.org",
        "number": chance.randrange(1000),
        "text": "none" if chance.random() < style.odd else str(chance.randrange(1000)),
        "secret": noise.hex(),
        "note": {"town": chance.choice(("Köln", '"Łódź"', "東京")), "nothing": None},
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def identity_of(headers: Headers) -> str | None:
    """The id a record claims, `None` where it has none."""
    return next((value.decode(errors="replace") for name, value in headers if name == ID and value is not None), None)


def is_sound(key: bytes | None, value: bytes | None, headers: Headers, timestamp: int) -> bool:
    """Whether a record is as it was made, by its own digest."""
    told = [value for name, value in headers if name == DIGEST]
    rest = [(name, each) for name, each in headers if name != DIGEST]
    return told == [_digest(key, value, rest, timestamp)]


def _digest(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], timestamp: int
) -> bytes:
    text = repr((key, value, list(headers), timestamp)).encode()
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
