"""Documents of operators' declarations beside the configuration file: links and namespaces (KIP-986), filters, pauses,
settings.

A link is declared on both its clusters, a namespace on its own one. A writer merges the documents in a cluster's ledger
with those of the other side, so a key ends in the id of the cluster that holds the knowledge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from isthmus.ledger.documents.document import Document, DocumentOfLink
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.pauses import PausedPart, PausedTask
from isthmus.model.namespace import Namespace, NamespaceKind
from isthmus.model.naming import TargetTopic
from isthmus.model.registers import Register
from isthmus.model.trees.reshaping import TreeShape
from isthmus.model.trees.switching import Allowance, BeginEpoch, TargetChoice
from isthmus.model.trees.treedeclaration import TreeDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationDocument(DocumentOfLink):
    """The declarations of a link as the cluster with the id `cluster` knows them."""

    KIND: ClassVar[str] = "declaration"

    cluster: str
    registers: tuple[Register, ...]

    @property
    def declared(self) -> Declaration:
        """The link as that cluster knows it."""
        return Declaration(name=self.link, registers=self.registers)

    def _path(self) -> tuple[str, ...]:
        return (f"@{self.cluster}",)


def declaration_of(link: str, documents: Iterable[Document]) -> Declaration:
    """Join the declarations of a link in these documents."""
    found = Declaration(name=link, registers=())
    for document in DeclarationDocument.find_all(documents, link):
        found = found.join(document.registers)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceDocument(Document):
    """The declarations of a namespace of the cluster with the id `cluster`."""

    KIND: ClassVar[str] = "namespace"

    kind: NamespaceKind
    prefix: str
    is_exact: bool = False
    cluster: str
    registers: tuple[Register, ...]

    @property
    def namespace(self) -> Namespace:
        """The namespace that was declared."""
        return Namespace(kind=self.kind, prefix=self.prefix, is_exact=self.is_exact)

    def _path(self) -> tuple[str, ...]:
        return (self.kind, str(self.namespace), f"@{self.cluster}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FiltersDocument(DocumentOfLink):
    """The patterns that an operator set for the link's selection in place of the configuration's, `None` for those
    that stay. `by` names the last operator, "" where an older release wrote it.
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
    """The settings that an operator set for a link of the configuration file: keys of links[] in order, each with its
    value as JSON. `by` names the last operator.
    """

    KIND: ClassVar[str] = "settings"

    settings: tuple[tuple[str, str], ...]
    since_ms: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseDocument(DocumentOfLink):
    """A pause of copying by an operator: of the whole link, one target topic, or with `prefix` all topics that begin
    with it. Deleting the document resumes. `by` names the operator, "" where an older release wrote it. With
    `for_recovery` a recovery wrote it, and deletes it again.
    """

    KIND: ClassVar[str] = "pause"

    topic: TargetTopic | None = None
    prefix: str | None = None
    since_ms: int
    by: str = ""
    for_recovery: bool = False

    @property
    def part(self) -> PausedPart:
        """The part of the link that is paused."""
        return self.topic if self.prefix is None else Namespace(prefix=self.prefix)

    def _path(self) -> tuple[str, ...]:
        # The star of a namespace is in no topic's name.
        return () if self.part is None else (str(self.part),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPauseDocument(DocumentOfLink):
    """A pause of one task of the link by an operator, `by` as in `PauseDocument`. Deleting the document resumes.

    It has a kind of its own, so that releases that do not know it go on with the task instead of pausing the link.
    """

    KIND: ClassVar[str] = "task-pause"

    task: str
    since_ms: int
    by: str = ""

    @property
    def part(self) -> PausedPart:
        """The task that is paused."""
        return PausedTask(self.task)

    def _path(self) -> tuple[str, ...]:
        return (self.task,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDocument(DocumentOfLink):
    """The leaf of its subtree that a distributor copies to, chosen by an operator; in the ledger of its source, as the
    targets may be gone.
    """

    KIND: ClassVar[str] = "switch"

    choice: TargetChoice
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowanceDocument(DocumentOfLink):
    """How far a distributor to `target` may copy. It is written in the ledger of its source before the distributor
    copies that far, to know where another leaf may begin once this one is gone. The command that chooses another leaf
    fences the writer of this document. `epochs` are those of the copied records, as far as known.
    """

    KIND: ClassVar[str] = "allowance"

    target: str
    lanes: tuple[Allowance, ...]
    epochs: tuple[BeginEpoch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDocument(Document):
    """The new shape of a tree of the file that changed while it ran; on all its clusters. The newest counts."""

    KIND: ClassVar[str] = "tree"

    tree: str
    shape: TreeShape
    since_ms: int

    def _path(self) -> tuple[str, ...]:
        return (self.tree,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDeclarationDocument(Document):
    """The declarations of a tree as the cluster with the id `cluster` knows them."""

    KIND: ClassVar[str] = "tree-declaration"

    tree: str
    cluster: str
    registers: tuple[Register, ...]

    @property
    def declared(self) -> TreeDeclaration:
        """The tree as that cluster knows it."""
        return TreeDeclaration(name=self.tree, registers=self.registers)

    def _path(self) -> tuple[str, ...]:
        return (self.tree, f"@{self.cluster}")
