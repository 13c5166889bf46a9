"""The static files of pages, read once and addressed by their content."""

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
    """One file; any difference in it changes `version`."""

    content: bytes
    media_type: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """Return all of them by name."""
    found = {}
    for each in files("isthmus.web").joinpath("static").iterdir():
        kind = _TYPES.get(each.name.rpartition(".")[2])
        if kind is not None:
            content = each.read_bytes()
            found[each.name] = Asset(content, kind, hashlib.sha256(content).hexdigest()[:16])
    return found


def asset(name: str) -> str:
    """Return the address of one, which may be cached for ever."""
    return f"/static/{name}?v={assets()[name].version}"
