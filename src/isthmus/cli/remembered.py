"""Names of links, topics and groups for completion: at once, from the last look; new ones are fetched in the
background.

A shell waits while a user presses the tabulator, so nothing here asks a cluster, nor loads modules that can. Names
older than a few seconds are returned all the same, and a process of its own fetches new ones: `python -m
isthmus.cli.remembered FILE`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from isthmus.config.reading.places import xdg_folder

FRESH_S: Final = 5.0
_LOOKING_S: Final = 30.0
"""For so long a look counts as still running; it is over by then, whatever its result."""
_Links = Mapping[str, Mapping[str, list[str]]]


class Remembered:
    """The names of one configuration file: its own, and those of the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._file = cache_file(self._path)
        self._written = _read_mapping(self._path)
        self._found = _read_names(self._file)

    @property
    def is_fresh(self) -> bool:
        """Whether the clusters were asked within the last seconds."""
        return 0 <= time.time() - float(self._found.get("at", 0)) < FRESH_S

    def clusters(self) -> list[str]:
        """The aliases of clusters."""
        return sorted(map(str, _mapping(self._written.get("clusters"))))

    def cluster_ids(self) -> dict[str, str]:
        """The ids of clusters as they were found last, by the addresses of their brokers."""
        return {str(at): str(each) for at, each in _mapping(self._found.get("cluster_ids")).items()}

    def keep_cluster_ids(self, ids: Mapping[str, str]) -> None:
        """Keep the ids of clusters that were asked, beside all other names."""
        remember(self._file, {**_read_names(self._file), "cluster_ids": ids})

    def links(self) -> list[str]:
        """The names of links, those that are declared on clusters too."""
        return self._all(self._links(), "declared")

    def trees(self) -> list[str]:
        """Return the names of trees, likewise."""
        return self._all(self._entries("trees"), "declared_trees")

    def topics(self, link: str | None = None) -> list[str]:
        """The topics of a link, or of all."""
        return self._names("topics", link)

    def groups(self, link: str | None = None) -> list[str]:
        """The groups that a link carries, or those of all."""
        return self._names("groups", link)

    def refresh(self) -> None:
        """Fetch names from the clusters in a background process, unless one is running."""
        if self.is_fresh or 0 <= time.time() - self._found.get("asked", 0) < _LOOKING_S:
            return
        remember(self._file, {**self._found, "asked": time.time()})
        start_aside([sys.executable, "-m", "isthmus.cli.remembered", str(self._path)])

    def _all(self, written: Sequence[Mapping[str, Any]], declared: str) -> list[str]:
        return sorted({*(str(each["name"]) for each in written if "name" in each), *self._found.get(declared, [])})

    def _names(self, kind: str, link: str | None) -> list[str]:
        live: _Links = self._found.get("links", {})
        names = {name for each, found in live.items() if link in (None, each) for name in found.get(kind, [])}
        for each in self._links():
            if link in (None, each.get("name")):
                names.update(_literals(_mapping(each.get(kind)).get("include")))
        return sorted(names)

    def _links(self) -> list[Mapping[str, Any]]:
        return self._entries("links")

    def _entries(self, section: str) -> list[Mapping[str, Any]]:
        found = self._written.get(section)
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def start_aside(command: Sequence[str]) -> None:
    """Start a background process, if that is possible."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("_ISTHMUS")}
    with contextlib.suppress(OSError):
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def cache_file(path: Path) -> Path:
    """Return the file for the names of a configuration file."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return xdg_folder("XDG_CACHE_HOME", ".cache") / "isthmus" / "names" / f"{digest}.json"


def remember(file: Path, names: Mapping[str, Any]) -> None:
    """Store names, for the user alone; if that is not possible they are dropped."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(names), encoding="utf-8")
        draft.replace(file)


def look(path: Path) -> None:
    """Ask the clusters for their names, and keep them; those of clusters that are away stay as they were."""
    # Loaded only here: they take longer than a shell may wait.
    from dataclasses import asdict

    from isthmus.fabric.fabric import open_fabric

    file = cache_file(path)
    fabric = open_fabric(path, declared=True)
    found = fabric.names()
    before = _read_names(file)
    links = {**before.get("links", {}), **{link: asdict(names) for link, names in found.items()}}
    configuration = fabric.configuration
    declared = {
        "declared": sorted(configuration.declared or ()),
        "declared_trees": sorted(configuration.declared_trees),
    }
    ids = _mapping(before.get("cluster_ids"))
    remember(file, {"at": time.time(), "links": links, "cluster_ids": ids, **declared})


def _read_mapping(path: Path) -> Mapping[str, Any]:
    # A file that is being written may hold anything; the commands report its errors.
    with contextlib.suppress(OSError, ValueError, yaml.YAMLError, RecursionError):
        return _mapping(yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader))  # noqa: S506 - a safe one
    return {}


def _read_names(file: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return dict(_mapping(json.loads(file.read_text(encoding="utf-8"))))
    return {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _literals(patterns: object) -> Iterable[str]:
    given = patterns if isinstance(patterns, list) else []
    return (each for each in given if isinstance(each, str) and not each.endswith("*") and not each.startswith("/"))


_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

if __name__ == "__main__":
    look(Path(sys.argv[1]))
