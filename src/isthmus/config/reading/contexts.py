"""Names for configuration files, and which of them counts: `isthmus context`.

They are kept in `contexts.json` in the user's folder of the XDG specification:

    {"current": "prod", "contexts": {"prod": "/srv/isthmus/isthmus.yaml", "test": "/home/ada/test/isthmus.yaml"}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from isthmus.config.reading.locked import exclusive
from isthmus.errors import ConfigError

VARIABLE: Final = "ISTHMUS_CONTEXT"
FILE: Final = "contexts.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Absolute paths of configuration files by name, and the name of the current one, `None` for none."""

    paths: Mapping[str, Path] = field(default_factory=dict)
    current: str | None = None

    def path(self, name: str) -> Path:
        """Return the file of that name.

        :raises ConfigError: There is none.
        """
        if name not in self.paths:
            near = get_close_matches(name, self.paths, n=1)
            known = f"There is {', '.join(self.paths)}." if self.paths else "isthmus context add NAME FILE makes one."
            raise ConfigError(f"there is no context {name}", hint=f"Did you mean {near[0]}? {known}" if near else known)
        return self.paths[name]


def read_contexts(folder: Path) -> Contexts:
    """Read the contexts from the user's folder; none if there is no file.

    :raises ConfigError: The file cannot be read, or is none of ours.
    """
    path = folder / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        paths = {str(name): Path(str(file)) for name, file in found.get("contexts", {}).items()}
        current = found.get("current")
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, AttributeError):
        raise ConfigError(
            f"{path} cannot be read as names of configuration files",
            hint="Correct it, or remove it and give the names again: isthmus context add.",
        ) from None
    return Contexts(paths=paths, current=None if current is None else str(current))


def change_contexts(folder: Path, change: Callable[[Contexts], Contexts], *, dry_run: bool = False) -> None:
    """Write the contexts as `change` returns them, atomically: no reader sees half a file, and of two changes none is
    lost.

    :raises ConfigError: The file is none of ours, the folder cannot be written to, or `change` raises it.
    """
    if dry_run:
        change(read_contexts(folder))
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(folder):
            _write(change(read_contexts(folder)), folder)
    except OSError as error:
        raise ConfigError(
            f"{folder / FILE} cannot be written: {error.strerror}", hint="Let the user who runs Isthmus write there."
        ) from None


def _write(contexts: Contexts, folder: Path) -> None:
    found = {"current": contexts.current, "contexts": {name: str(path) for name, path in contexts.paths.items()}}
    draft = folder / f".{FILE}.{os.getpid()}"
    draft.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / FILE)
