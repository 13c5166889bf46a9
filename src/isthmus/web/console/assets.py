"""The files that pages are made of beside what is rendered, read once and addressed by what is in them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file; `version` is another one as soon as anything in it is."""

    content: bytes
    media_type: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """All of them by name."""
    found = {}
    for each in files("isthmus.web").joinpath("static").iterdir():
        kind = _TYPES.get(each.name.rpartition(".")[2])
        if kind is not None:
            content = each.read_bytes()
            found[each.name] = Asset(content, kind, hashlib.sha256(content).hexdigest()[:16])
    return found


def asset(name: str) -> str:
    """The address of one, which may be kept for ever."""
    return f"/static/{name}?v={assets()[name].version}"
