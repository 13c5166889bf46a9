"""Loads modules from the source that a run has read, whatever their files hold meanwhile.

Such a module is `rules@DIGEST` among the modules of the process, so that sources that differ do not meet there, and an
import statement in it that names `rules` finds that of its own source.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.readers import MultiplexedPath
from importlib.resources.abc import Traversable, TraversableResources
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from isthmus.model.recordfunction import FunctionSource, ModuleSource

_MARK: Final = "@"


def load_module(name: str, source: FunctionSource) -> ModuleType:
    """Load a module of a source, once in this process.

    :raises Exception: It raised that, or is not part of the source (ImportError).
    """
    _FINDER.sources.setdefault(source.digest, source)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    return importlib.import_module(_alias(name, source.digest))


class _SourceFinder(MetaPathFinder, ExecutionLoader):
    """Finds the modules of all `sources`, by their digests."""

    def __init__(self) -> None:
        self.sources: dict[str, FunctionSource] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Find a module of a source. Others in its packages are libraries of machine code, or were not read."""
        source = self._source(fullname)
        if source is None:
            return None
        module = _find(source, fullname)
        if module is None:
            _require_machine_code(fullname, path)
            return None
        spec = importlib.util.spec_from_loader(fullname, self, origin=module.path or None, is_package=module.is_package)
        if spec is not None:
            spec.has_location = bool(module.path)
            if module.is_package:
                spec.submodule_search_locations = list(module.locations)
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create a module whose import statements find those of its own source."""
        module = ModuleType(spec.name)
        if (source := self._source(spec.name)) is not None:
            vars(module)["__builtins__"] = {**vars(builtins), "__import__": _importer(source)}
        return module

    def get_source(self, fullname: str) -> str:
        """Return the text of a module."""
        return self._require(fullname).text

    def get_filename(self, fullname: str) -> str:
        """Return the file of a module, where it was read."""
        return self._require(fullname).path

    def get_data(self, path: str) -> bytes:
        """Return what a file beside a module holds now."""
        return Path(path).read_bytes()

    def get_resource_reader(self, fullname: str) -> TraversableResources:
        """Return what reads files of a package, where its module was read."""
        return _PackageFiles(self._require(fullname))

    def is_package(self, fullname: str) -> bool:
        """Return whether a module is a package."""
        return self._require(fullname).is_package

    def _require(self, fullname: str) -> ModuleSource:
        source = self._source(fullname)
        found = None if source is None else _find(source, fullname)
        if found is None:
            raise ImportError(f"{fullname} is not known")
        return found

    def _source(self, fullname: str) -> FunctionSource | None:
        _, mark, digest = fullname.partition(".")[0].partition(_MARK)
        return self.sources.get(digest) if mark else None


class _PackageFiles(TraversableResources):
    def __init__(self, package: ModuleSource) -> None:
        self._package = package

    def files(self) -> Traversable:
        path = self._package.path
        return Path(path).parent if path else MultiplexedPath(*map(Path, self._package.locations))


_FINDER: Final = _SourceFinder()


def _alias(name: str, digest: str) -> str:
    top, dot, rest = name.partition(".")
    return f"{top}{_MARK}{digest}{dot}{rest}"


def _find(source: FunctionSource, fullname: str) -> ModuleSource | None:
    top, dot, rest = fullname.partition(".")
    name = f"{top.partition(_MARK)[0]}{dot}{rest}"
    return next((each for each in source.modules if each.name == name), None)


def _require_machine_code(fullname: str, path: Sequence[str] | None) -> None:
    found = PathFinder.find_spec(fullname, path)
    if found is not None and isinstance(found.loader, SourceFileLoader):
        raise ImportError(f"{fullname} was not read with the function's source: only what import statements name is")


def _importer(source: FunctionSource) -> Any:
    """Return what import statements of a source call."""
    own = {each.name.partition(".")[0] for each in source.modules}

    def import_module(
        name: str,
        names: Mapping[str, object] | None = None,
        local_names: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0 and name.partition(".")[0] in own:
            name = _alias(name, source.digest)
        return builtins.__import__(name, names, local_names, fromlist, level)

    return import_module
