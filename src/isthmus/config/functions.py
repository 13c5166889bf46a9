"""The source of Python functions of transforms, read together with the file: a run goes on with what it has read.

Read are the module of the function, those that import statements in it name, and so on: as far as they lie in the same
folder or package, not among installed libraries. No module is run for it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Final

from isthmus.errors import ConfigError
from isthmus.model.recordfunction import FunctionFolder, FunctionSource, ModuleSource, RecordFunction

_BYTES_MAX: Final = 4 << 20
_DIGEST_CHARACTERS: Final = 12
_LIBRARIES: Final = ("site-packages", "dist-packages")


def read_function(text: str, folder: str) -> RecordFunction:
    """Parse the name of a function, and read the source of its module, if that is found here.

    :raises ConfigError: It is no such name, a module cannot be read or parsed, or there is more source than tasks
        should be given.
    """
    function = RecordFunction.parse(text, folder)
    # Files may have come since modules were last looked for.
    importlib.invalidate_caches()
    modules = _Modules(folder)
    modules.add(function.module)
    if function.module not in modules.found:
        return function
    found = tuple(modules.found[name] for name in sorted(modules.found))
    size = sum(len(each.text) for each in found)
    if size > _BYTES_MAX:
        raise ConfigError(
            f"{text!r} needs {len(found)} modules with {size >> 20} MiB of source, more than {_BYTES_MAX >> 20}",
            hint="Tasks get the source of the function and of what it imports from its own folder or package. Move it "
            "to a package of its own, and install what it needs as a library.",
        )
    return function.with_source(FunctionSource(_digest(found), found, frozenset(modules.missing)))


class _Modules:
    """The modules that were `found`, by name, and the names that are `missing`: no file was found for these."""

    def __init__(self, folder: str) -> None:
        self._path = [each for each in sys.path if not isinstance(each, FunctionFolder)]
        if folder and folder not in self._path:
            self._path.append(folder)
        self.found: dict[str, ModuleSource] = {}
        self.missing: set[str] = set()
        self._others: set[str] = set()
        self._roots: set[Path] = set()

    def add(self, name: str) -> None:
        """Add a module with the packages that it lies in, and all that they import of their own folder."""
        waiting = [name]
        while waiting:
            for each in _with_parents(waiting.pop()):
                if each in self.found or each in self._others:
                    continue
                module = self._read(each)
                if module is None:
                    self._others.add(each)
                    break
                self.found[each] = module
                waiting += _imported(module)

    def _read(self, name: str) -> ModuleSource | None:
        """Read a module whose packages are found already; `None` if it has no source, or is an installed library."""
        package = name.rpartition(".")[0]
        spec = PathFinder.find_spec(name, self.found[package].locations if package else self._path)
        if spec is None:
            self.missing.add(name)
            return None
        if not (package or self._is_own(spec)):
            return None
        if not self.found:
            self._roots = {each for each in _folders(spec) if each.name not in _LIBRARIES}
        locations = tuple(spec.submodule_search_locations or ())
        if isinstance(spec.loader, SourceFileLoader):
            path = Path(spec.loader.path)
            return ModuleSource(name, str(path), _text(path), spec.submodule_search_locations is not None, locations)
        # A package without a file of its own has no loader either. Others are compiled, or zipped.
        return ModuleSource(name, "", "", True, locations) if spec.loader is None and locations else None

    def _is_own(self, spec: ModuleSpec) -> bool:
        """Whether a module is the first one, or lies in the folder of that, which is none of libraries."""
        roots = _folders(spec)
        return not self.found or roots <= self._roots


def _folders(spec: ModuleSpec) -> set[Path]:
    """Return the folders that a module lies in."""
    places = [spec.origin] if spec.submodule_search_locations is None else spec.submodule_search_locations
    return {Path(place or "").parent for place in places}


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _text(path: Path) -> str:
    try:
        return importlib.util.decode_source(path.read_bytes())
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="It is the source of a transform.") from error


def _imported(module: ModuleSource) -> Sequence[str]:
    """Return the names that import statements of a module may mean."""
    try:
        tree = ast.parse(module.text, module.path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # The last two are for expressions that are nested too deeply.
        raise ConfigError(
            f"{module.path} cannot be parsed: {type(error).__name__}: {error}",
            hint="It is the source of a transform. Correct it.",
        ) from error
    package = module.name if module.is_package else module.name.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            names += [f"{base}.{each.name}" for each in node.names if base]
    return names


def _digest(modules: Sequence[ModuleSource]) -> str:
    hashed = hashlib.sha256()
    for each in modules:
        for text in (each.name, each.text):
            data = text.encode()
            hashed.update(b"%d:" % len(data) + data)
    return hashed.hexdigest()[:_DIGEST_CHARACTERS]
