"""The machine of the import: the files that the import reads and writes there."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isthmus.errors import ConfigError
from isthmus.interop.gathering import Companion

_OWNER_ONLY: Final = 0o600
_STORE_BYTES_MAX: Final = 16 * 2**20


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """Files and variables of this machine. Relative paths start at `folder` if there is such a file, else here."""

    folder: Path
    environment: Mapping[str, str]

    def locate(self, path: str) -> str:
        beside = self.folder / path
        return str((beside if beside.exists() else Path(path)).absolute())

    def read(self, path: str) -> bytes:
        with open(self.locate(path), "rb") as file:
            data = file.read(_STORE_BYTES_MAX + 1)
        if len(data) > _STORE_BYTES_MAX:
            raise ValueError("too large to be a store, a certificate or a secret")
        return data

    def variable(self, name: str) -> str | None:
        return self.environment.get(name)


def read_input(path: Path) -> bytes:
    """Read the file to import.

    :raises ConfigError: It cannot be read.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", hint="Name the file in it.")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {path}", hint="Name the file that MirrorMaker 2 is started with."
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", hint="Let the user who imports read it."
        ) from None


def write_all(text: str, companions: Iterable[Companion], target: Path, *, force: bool) -> tuple[Path, ...]:
    """Write a configuration and the files beside it, each readable by its owner alone; return all paths, the
    configuration last.

    An existing file is replaced atomically and only with `force`, so no reader sees half a file.

    :raises ConfigError: Something is there already, or the folder cannot be written to.
    """
    files = [(target.parent / each.name, each.content) for each in companions]
    files.append((target, text.encode()))
    present = [path for path, _ in files if path.exists() or path.is_symlink()]
    if present and not force:
        shown = ", ".join(map(str, present))
        raise ConfigError(f"{shown}: there already, and nothing was written", hint="Name another file, or use --force.")
    try:
        for path, content in files:
            if path is not target:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(path, content, 0o644 if path is target else _OWNER_ONLY)
    except OSError as error:
        message = f"{error.filename or target} cannot be written: {error.strerror}"
        raise ConfigError(message, hint="Name a file in a folder you may write to.") from None
    return tuple(path for path, _ in files)


@contextlib.contextmanager
def kept_if_done(written: Sequence[Path]) -> Iterator[None]:
    """Keep new files only if the block ends without an error: otherwise they must not be used. Their folder stays if it
    holds more.
    """
    try:
        yield
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in written[:-1]}:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _replace(path: Path, content: bytes, mode: int) -> None:
    """Replace the file atomically by one with that content and mode."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
