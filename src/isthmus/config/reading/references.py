"""Values outside the file: `${env:NAME}`, `${file:/path}`, `${file:/path:key}`, `${dir:/path:name}` and those that are
asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Final

from isthmus.config.reading.document import Path
from isthmus.config.reading.problems import Mistake
from isthmus.config.reading.vaults import OutOfReach, ask_password, read_keyring
from isthmus.model.cluster import Secret
from isthmus.model.text.reference import FileReference

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_FORMS: Final = (
    "Write ${env:NAME}, ${file:/path}, ${file:/path:key}, ${dir:/path:name}, ${prompt:what} or "
    "${keyring:service:user}; $${ stands for a plain ${."
)


@dataclass(slots=True)
class Resolution:
    """A document's values with every reference replaced.

    `referenced` are the paths whose text came, at least in part, from elsewhere; `origins` has the parts of those that
    came from files, which can be read again. `problems` name the unresolved references, but never a value.
    """

    environment: Mapping[str, str]
    folder: FilePath
    root: object = None
    referenced: set[Path] = field(default_factory=set)
    origins: dict[Path, tuple[Secret | FileReference, ...]] = field(default_factory=dict)
    problems: list[Mistake] = field(default_factory=list)

    @classmethod
    def of(cls, root: object, environment: Mapping[str, str], folder: FilePath) -> Resolution:
        """Resolve all texts below `root`; relative paths start at `folder`."""
        resolution = cls(environment, folder)
        resolution.root = resolution._value(root, ())
        return resolution

    def is_unresolved(self, path: Path) -> bool:
        """Return whether the value at the path, or a text it was taken from, has an unresolved reference."""
        return any(path[: len(problem.path)] == problem.path for problem in self.problems)

    def _value(self, value: object, path: Path) -> object:
        if isinstance(value, dict):
            return {key: self._value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, tuple):
            return tuple(self._value(item, (*path, i)) for i, item in enumerate(value))
        if isinstance(value, str) and "${" in value:
            return self._substitute(value, path)
        return value

    def _substitute(self, text: str, path: Path) -> str:
        parts: list[Secret | FileReference] = []
        values: list[str] = []
        begin = 0
        for found in _REFERENCE.finditer(text):
            value = self._text(found, path)
            values += [text[begin : found.start()], value]
            file = self._file(found[1] or "")
            parts += [Secret(values[-2]), Secret(value) if file is None else file]
            begin = found.end()
        values.append(text[begin:])
        parts.append(Secret(values[-1]))
        if any(isinstance(part, FileReference) for part in parts):
            self.origins[path] = tuple(parts)
        return "".join(values)

    def _file(self, written: str) -> FileReference | None:
        kind, _, rest = written.partition(":")
        if kind == "dir" and ":" in rest:
            # Kubernetes mounts a secret as a folder of files, as in DirectoryConfigProvider (KIP-632).
            name, key = rest.replace(":", "/"), ""
        elif kind == "file" and rest:
            name, _, key = rest.rpartition(":") if ":" in rest else (rest, "", "")
        else:
            return None
        return FileReference(str((self.folder / FilePath(name).expanduser()).absolute()), key)

    def _text(self, found: re.Match[str], path: Path) -> str:
        if found[1] is None:
            return "${"
        self.referenced.add(path)
        kind, _, rest = found[1].partition(":")
        try:
            if kind == "env" and rest:
                return self._from_environment(rest)
            if (file := self._file(found[1])) is not None:
                name = rest.replace(":", "/") if kind == "dir" else rest
                return _from_file(file, name.removesuffix(f":{file.key}") if file.key else name)
            if kind == "prompt" and rest:
                return ask_password(rest)
            if kind == "keyring" and ":" in rest:
                service, _, user = rest.partition(":")
                return read_keyring(service, user)
            raise _Unresolved(f"holds ${{{found[1]}}}, which is no reference", _FORMS)
        except (_Unresolved, OutOfReach) as unresolved:
            self.problems.append(Mistake(path, unresolved.message, unresolved.hint))
            return ""

    def _from_environment(self, name: str) -> str:
        if name not in self.environment:
            raise _Unresolved(
                f"refers to the environment variable {name}, which is not set",
                f"Set {name} before starting, for example with: export {name}=...",
            )
        return self.environment[name]


def _from_file(file: FileReference, name: str) -> str:
    try:
        text = FilePath(file.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise _Unresolved(
            f"refers to the file {name}, which cannot be read: {reason}",
            f"Create {name} and let the user who runs Isthmus read it.",
        ) from None
    try:
        return file.value_in(text)
    except KeyError:
        raise _Unresolved(
            f"refers to {file.key} in the file {name}, which has no such key",
            f"Add a line {file.key}=... to {name}.",
        ) from None


class _Unresolved(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
