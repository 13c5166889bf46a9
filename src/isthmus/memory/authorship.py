"""What operators have declared, changed and done, as the ledgers hold it: who, when, and of which subject."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from isthmus.errors import PlanRefused
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import (
    DeclarationDocument,
    Document,
    FiltersDocument,
    NamespaceDocument,
    PartedDocument,
    PauseDocument,
    ProvenanceDocument,
    RecoveryDocument,
    ReplayDocument,
    SettingsDocument,
    TaskPauseDocument,
    TreeDeclarationDocument,
)
from isthmus.memory.declarations import PATIENCE_S
from isthmus.memory.filtering import FILTERS
from isthmus.memory.links import ledger_within
from isthmus.model.cluster import Cluster
from isthmus.model.problem import Problem, problem_of


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Authored:
    """A statement of an operator that holds: `what` was stated of `subject`, and its `value` for people to read. `by`
    is "" where an older release wrote it, and `clusters` are those whose ledgers hold it.
    """

    at_ms: int
    by: str
    what: str
    subject: str
    value: str
    clusters: tuple[str, ...] = ()


class Authorship(NamedTuple):
    """All statements of operators that hold, the newest first, and the clusters that did not answer."""

    said: list[Authored]
    away: dict[str, Problem]


async def authorship(clusters: Sequence[Cluster], session: ClientSession) -> Authorship:
    """Read the statements in the ledgers of these clusters, as far as they answer within ten seconds each."""
    answers = await asyncio.gather(*(_documents(each, session) for each in clusters))
    held: dict[Authored, list[str]] = {}
    for cluster, documents in zip(clusters, answers, strict=True):
        if not isinstance(documents, Problem):
            for statement in said_in(documents):
                held.setdefault(statement, []).append(cluster.alias)
    found = [replace(statement, clusters=tuple(dict.fromkeys(aliases))) for statement, aliases in held.items()]
    away = {each.alias: one for each, one in zip(clusters, answers, strict=True) if isinstance(one, Problem)}
    return Authorship(sorted(found, reverse=True), away)


async def _documents(cluster: Cluster, session: ClientSession) -> list[Document] | Problem:
    ledger = await ledger_within(session.client(cluster), PATIENCE_S)
    if isinstance(ledger, Problem):
        return ledger
    try:
        return list(ledger.documents().values())
    except PlanRefused as error:
        return problem_of(error)


def said_in(documents: Iterable[Document]) -> Iterator[Authored]:
    """Yield the statements of operators in these documents."""
    for document in documents:
        yield from _find_declarations(document)
        yield from _find_changes(document)
        yield from _find_actions(document)


def _find_declarations(document: Document) -> Iterator[Authored]:
    match document:
        case DeclarationDocument(link=name, registers=registers):
            subject = f"link {name}"
        case TreeDeclarationDocument(tree=name, registers=registers):
            subject = f"tree {name}"
        case NamespaceDocument(registers=registers):
            subject = f"namespace {document.kind}/{document.namespace}"
        case _:
            return
    for each in registers:
        yield Authored(at_ms=each.at_ms, by=each.by, what=each.name, subject=subject, value=each.value)


def _find_changes(document: Document) -> Iterator[Authored]:
    what = document.KIND
    match document:
        case FiltersDocument():
            lists = {name: getattr(document, name) for name in FILTERS}
            written = {name: ", ".join(texts) or "nothing" for name, texts in lists.items() if texts is not None}
            value = "; ".join(f"{name} {texts}" for name, texts in written.items())
        case SettingsDocument():
            value = "; ".join(f"{key}={text}" for key, text in document.settings)
        case PauseDocument() | TaskPauseDocument():
            what, value = PauseDocument.KIND, "all of it" if document.part is None else str(document.part)
        case _:
            return
    yield Authored(at_ms=document.since_ms, by=document.by, what=what, subject=f"link {document.link}", value=value)


def _find_actions(document: Document) -> Iterator[Authored]:
    match document:
        case RecoveryDocument():
            what, value = "recover", f"{document.topic}: {document.stage}"
        case PartedDocument():
            what, value = "recover", f"{document.topic} goes on with mapped offsets"
        case ReplayDocument():
            what, value = "replay", f"{document.topic} into {document.into}"
        case ProvenanceDocument():
            what, value = document.verb, str(document.topic)
        case _:
            return
    yield Authored(at_ms=document.at_ms, by=document.by, what=what, subject=f"link {document.link}", value=value)
