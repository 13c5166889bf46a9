"""A declared link in a file: the output of `isthmus link describe -o yaml` is the input of `isthmus link create -f`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from isthmus.config.declared import as_said
from isthmus.config.reading.document import ConfigDocument, Path, format_path
from isthmus.errors import ConfigError
from isthmus.model.links.declaration import ASYNC
from isthmus.model.namespace import KINDS, Namespace, NamespaceMap

_READ: Final = ("link", "source", "target", "mode", "attached", "settings")
_PASSED_OVER: Final = (
    "deleted",
    "detached",
    "semantics",
    "written_by_file",
    "behind",
    "away",
    "unusable",
    "said",
    "overruled",
    "parted",
    "given_up",
)
"""The fields that describe the state of a link, and are no part of its declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkManifest:
    """The declaration in a file. `cluster_ids` has, by alias, the ids that the clusters have to
    have; it may be empty.
    """

    name: str
    source: str
    target: str
    maps: tuple[NamespaceMap, ...]
    mode: str
    settings: Mapping[str, Any]
    cluster_ids: Mapping[str, str]


def read_manifest(text: str, file: str) -> LinkManifest:
    """Read the link that a file declares.

    :raises ConfigError: It is none: the message says where.
    """
    document = ConfigDocument.parse(text, file)
    reader = _Reader(document)
    root = reader.mapping((), document.root)
    reader.check_keys((), root, (*_READ, *_PASSED_OVER))
    ends = [reader.end((side,), reader.require(root, side)) for side in ("source", "target")]
    return LinkManifest(
        name=reader.text(("link",), reader.require(root, "link")),
        source=ends[0][0],
        target=ends[1][0],
        maps=tuple(reader.maps(root.get("attached") or ())),
        mode=reader.text(("mode",), root.get("mode") or ASYNC),
        settings=as_said(reader.mapping(("settings",), root.get("settings") or {})),
        cluster_ids={alias: cluster_id for alias, cluster_id in ends if cluster_id},
    )


class _Reader:
    """Takes values of a document, and refuses impossible ones with their place."""

    def __init__(self, document: ConfigDocument) -> None:
        self._document = document

    def build_error(self, path: Path, message: str, hint: str) -> ConfigError:
        place = f"{self._document.place(path)}: {format_path(path)}".rstrip(": ")
        return ConfigError(f"{place} {message}", field=format_path(path), line=self._document.line(path), hint=hint)

    def require(self, values: Mapping[str, Any], key: str) -> Any:
        if values.get(key) in (None, ""):
            raise self.build_error((key,), "is missing", "isthmus link describe LINK -o yaml prints a whole one.")
        return values[key]

    def mapping(self, path: Path, value: object) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self.build_error(
                path, "is no section of keys", "isthmus link describe LINK -o yaml prints a whole one."
            )
        return value

    def text(self, path: Path, value: object) -> str:
        if not isinstance(value, str):
            raise self.build_error(path, "is no text", "Put it in quotes.")
        return value

    def check_keys(self, path: Path, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in values:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
                raise self.build_error((*path, key), "is not known", hint)

    def end(self, path: Path, value: object) -> tuple[str, str]:
        """Return the alias of a cluster and its id: a text is an alias alone."""
        if isinstance(value, str):
            return value, ""
        section = self.mapping(path, value)
        self.check_keys(path, section, ("alias", "cluster_id"))
        alias = self.text((*path, "alias"), section.get("alias"))
        return alias, self.text((*path, "cluster_id"), section.get("cluster_id") or "")

    def maps(self, values: object) -> Iterator[NamespaceMap]:
        if not isinstance(values, tuple):
            raise self.build_error(("attached",), "is no list", "Write - {source: local-*, target: remote-*}.")
        for number, value in enumerate(values):
            path: Path = ("attached", number)
            section = self.mapping(path, value)
            self.check_keys(path, section, ("kind", "source", "target", "exact"))
            kind, exact = section.get("kind") or "topic", section.get("exact") or False
            if kind not in KINDS:
                raise self.build_error((*path, "kind"), "is no kind of namespace", f"There are {', '.join(KINDS)}.")
            if not isinstance(exact, bool):
                raise self.build_error((*path, "exact"), "is neither true nor false", "Leave it out for a prefix.")
            source = self.text((*path, "source"), section.get("source"))
            target = self.text((*path, "target"), section.get("target") or source)
            yield NamespaceMap(
                source=Namespace.of(source, kind, is_exact=exact), target=Namespace.of(target, kind, is_exact=exact)
            )
