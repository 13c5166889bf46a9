"""The folders of local clusters, by the XDG base directory specification."""

from __future__ import annotations

import os
from pathlib import Path

from isthmus.config.reading.places import xdg_folder


def cache_folder() -> Path:
    """Return the folder for files that can be made again: `$XDG_CACHE_HOME/isthmus`, by default `~/.cache/isthmus`."""
    return xdg_folder("XDG_CACHE_HOME", ".cache") / "isthmus"


def state_folder() -> Path:
    """Return the folder of detached clusters: `$XDG_STATE_HOME/isthmus/local`, or below `~/.local/state`."""
    return xdg_folder("XDG_STATE_HOME", ".local/state") / "isthmus" / "local"


def write_atomic(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Replace `path` by `text` at once: a reader sees the old or the new text, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)
    draft.replace(path)
