"""The places of the configuration file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from isthmus.config.reading.contexts import VARIABLE as CONTEXT_VARIABLE
from isthmus.config.reading.contexts import read_contexts
from isthmus.errors import ConfigError

DEFAULT_NAME: Final = "isthmus.yaml"
VARIABLE: Final = "ISTHMUS_CONFIG"
SYSTEM_FOLDER: Final = Path("/etc/isthmus")
SMALLEST: Final = """\
clusters:
  east: {bootstrap_servers: "127.0.0.1:9192"}
  west: {bootstrap_servers: "127.0.0.1:9292"}
links:
  - {name: east-west, source: east, target: west, topics: {include: ["flights", "orders.*"]}}
"""
_PROJECT: Final = ".git"


def find(given: str | Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """The configuration file: the one given, else that of the context `ISTHMUS_CONTEXT`, else `ISTHMUS_CONFIG`, else
    the first of `candidates`.

    :raises ConfigError: When there is no such file; the hint holds one to start with.
    """
    context = environment.get(CONTEXT_VARIABLE)
    if not given and context:
        given = read_contexts(user_folder(environment)).path(context)
    name = given or environment.get(VARIABLE)
    if name:
        path = Path(name)
        if path.is_dir():
            raise ConfigError(f"{path} is a folder", hint=f"Name the file in it, such as {path / DEFAULT_NAME}.")
        # Not only a regular one: shells pass the output of a command as a pipe, `-c <(...)`.
        if path.exists():
            return path
        origin = "" if given else f", which {VARIABLE} names"
        raise ConfigError(f"there is no configuration file {path}{origin}", hint=_hint())
    looked = list(candidates(environment))
    for path in looked:
        if path.is_dir():
            raise ConfigError(f"{path} is a folder", hint=f"Name the file in it, such as {path / DEFAULT_NAME}.")
        if path.exists():
            return path
    raise ConfigError(
        f"there is no configuration: neither -c, nor {VARIABLE}, nor ./{DEFAULT_NAME} or one in a folder above, nor "
        f"{' nor '.join(map(str, looked[-2:]))}",
        hint=_hint(),
    )


def candidates(environment: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Yield the places of a file that was not named: here and upwards, then the current context, the user's, the
    machine's.

    Upwards is as far as the project goes (a folder with `.git`), or the home folder. Folders into which anybody may
    write are skipped, except the current one: a file that another user has left there is not for us.
    """
    here = Path.cwd()
    yield Path(DEFAULT_NAME)
    folder = here
    while not (folder / _PROJECT).exists() and folder not in (folder.parent, _home(environment)):
        folder = folder.parent
        if not _is_anybodys(folder):
            yield folder / DEFAULT_NAME
    contexts = read_contexts(user_folder(environment))
    if contexts.current is not None:
        yield contexts.path(contexts.current)
    yield user_folder(environment) / DEFAULT_NAME
    yield SYSTEM_FOLDER / DEFAULT_NAME


def user_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's own configuration."""
    return xdg_folder("XDG_CONFIG_HOME", ".config", environment) / "isthmus"


def xdg_folder(variable: str, default: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return a base folder of the XDG specification: the variable's, or `default` below the home folder."""
    # The specification says that a relative path in these variables is to be ignored.
    named = Path(environment.get(variable, ""))
    return named if named.is_absolute() else _home(environment) / default


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment["HOME"]) if environment.get("HOME") else Path.home()


def _is_anybodys(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return True


def _hint() -> str:
    return (
        "Make one: isthmus init -b HOST:9092 --target HOST:9092 asks both clusters, isthmus import turns one of "
        f"MirrorMaker 2 into it. Or write {DEFAULT_NAME} with:\n\n{SMALLEST}"
    )
