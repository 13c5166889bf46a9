"""What operators say, beside the configuration file: links and namespaces (KIP-986), filters, pauses, settings.

A link is declared on both its clusters, a namespace on its own one. Whoever writes to a cluster's ledger merges what is
there with what is known from the other side, so that a key ends in the id of the cluster whose knowledge it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.document import Document, DocumentOfLink
from isthmus.model.declaration import Declaration
from isthmus.model.namespace import Namespace, NamespaceKind
from isthmus.model.naming import TargetTopic
from isthmus.model.pauses import PausedPart, PausedTask
from isthmus.model.registers import Register
from isthmus.model.reshaping import TreeShape
from isthmus.model.switching import Allowance, BeginEpoch, TargetChoice
from isthmus.model.treedeclaration import TreeDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationDocument(DocumentOfLink):
    """All that the cluster with the id `cluster` knows of what was declared of a link."""

    KIND: ClassVar[str] = "declaration"

    cluster: str
    registers: tuple[Register, ...]

    def _path(self) -> tuple[str, ...]:
        return (f"@{self.cluster}",)


def declaration_of(link: str, documents: Iterable[Document]) -> Declaration:
    """All that these documents hold of what was declared of a link."""
    found = Declaration(name=link, registers=())
    for document in documents:
        if isinstance(document, DeclarationDocument) and document.link == link:
            found = found.joined(document.registers)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceDocument(Document):
    """What was declared of a namespace of the cluster with the id `cluster`."""

    KIND: ClassVar[str] = "namespace"

    kind: NamespaceKind
    prefix: str
    is_exact: bool = False
    cluster: str
    registers: tuple[Register, ...]

    @property
    def namespace(self) -> Namespace:
        """The names it is about."""
        return Namespace(kind=self.kind, prefix=self.prefix, is_exact=self.is_exact)

    def _path(self) -> tuple[str, ...]:
        return (self.kind, str(self.namespace), f"@{self.cluster}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FiltersDocument(DocumentOfLink):
    """What an operator has the link select: patterns in place of the configuration's, `None` for those that stay.
    `by` is who said so last, "" where an older release wrote it.
    """

    KIND: ClassVar[str] = "filters"

    topics_include: tuple[str, ...] | None = None
    topics_exclude: tuple[str, ...] | None = None
    groups_include: tuple[str, ...] | None = None
    groups_exclude: tuple[str, ...] | None = None
    configs_exclude: tuple[str, ...] | None = None
    since_ms: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDocument(DocumentOfLink):
    """What an operator has set of a link that the configuration file has: keys of links[] in order, each with its value
    as JSON. `by` is who said so last.
    """

    KIND: ClassVar[str] = "settings"

    settings: tuple[tuple[str, str], ...]
    since_ms: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseDocument(DocumentOfLink):
    """Copying is paused by an operator: the whole link, one target topic, or with `prefix` all of them that begin so.
    Deleting the document resumes. `by` is who paused it, "" where an older release wrote it. `for_recovery`: it is a
    recovery's, which takes it back.
    """

    KIND: ClassVar[str] = "pause"

    topic: TargetTopic | None = None
    prefix: str | None = None
    since_ms: int
    by: str = ""
    for_recovery: bool = False

    @property
    def part(self) -> PausedPart:
        """What is paused."""
        return self.topic if self.prefix is None else Namespace(prefix=self.prefix)

    def _path(self) -> tuple[str, ...]:
        # The star of a namespace is in no topic's name.
        return () if self.part is None else (str(self.part),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPauseDocument(DocumentOfLink):
    """A task of the link is paused by an operator, `by` whom as in `PauseDocument`. Deleting the document resumes.

    A kind of its own: releases that do not know it go on with the task, and would otherwise pause the whole link.
    """

    KIND: ClassVar[str] = "task-pause"

    task: str
    since_ms: int
    by: str = ""

    @property
    def part(self) -> PausedPart:
        """What is paused."""
        return PausedTask(self.task)

    def _path(self) -> tuple[str, ...]:
        return (self.task,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDocument(DocumentOfLink):
    """To which leaf of its subtree a distributor copies, where an operator chose one; in the ledger of its source, as
    the targets may be gone.
    """

    KIND: ClassVar[str] = "switch"

    choice: TargetChoice
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowanceDocument(DocumentOfLink):
    """How far a distributor may go that copies to `target`: in the ledger of its source, before it goes there, so that
    it is known where another leaf may begin once that one is gone. Whoever chooses another leaf fences who writes it.
    `epochs` are those of what was copied, as far as they are known.
    """

    KIND: ClassVar[str] = "allowance"

    target: str
    lanes: tuple[Allowance, ...]
    epochs: tuple[BeginEpoch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDocument(Document):
    """A tree of the file that became another one while it ran; on all its clusters. The newest counts."""

    KIND: ClassVar[str] = "tree"

    tree: str
    shape: TreeShape
    since_ms: int

    def _path(self) -> tuple[str, ...]:
        return (self.tree,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDeclarationDocument(Document):
    """All that the cluster with the id `cluster` knows of what was declared of a tree."""

    KIND: ClassVar[str] = "tree-declaration"

    tree: str
    cluster: str
    registers: tuple[Register, ...]

    def _path(self) -> tuple[str, ...]:
        return (self.tree, f"@{self.cluster}")


def tree_declaration_of(tree: str, documents: Iterable[Document]) -> TreeDeclaration:
    """All that these documents hold of what was declared of a tree."""
    found = TreeDeclaration(name=tree, registers=())
    for document in documents:
        if isinstance(document, TreeDeclarationDocument) and document.tree == tree:
            found = found.joined(document.registers)
    return found
