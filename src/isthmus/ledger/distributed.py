"""Reads and extends the record of schema versions that a cluster's registry got from the primary one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import DistributedSchemaDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.view import LedgerView
from isthmus.model.schemas.content import DistributedVersion, VersionKey


class DistributedSchemas:
    """The schema versions in the ledger of one cluster, followed from look to look."""

    def __init__(self, client: Client, replication_factor: int | None = None) -> None:
        self._client, self._replication_factor = client, replication_factor
        self._view = LedgerView(client)
        self._documents: dict[str, DistributedSchemaDocument] = {}

    async def read_versions(self) -> dict[VersionKey, DistributedVersion]:
        """The versions that the registry got, by subject and version.

        :raises ClusterError: The ledger cannot be read.
        :raises PlanRefused: A newer Isthmus wrote it.
        """
        news = await self._view.look()
        if news.is_other_log:
            self._documents.clear()
        for entry in news.entries:
            if entry.kind != DistributedSchemaDocument.KIND:
                continue
            document = entry.decode()
            if isinstance(document, DistributedSchemaDocument):
                self._documents[entry.key] = document
            else:
                self._documents.pop(entry.key, None)
        return {(one.subject, each.version): each for one in self._documents.values() for each in one.versions}

    async def note(self, shared: Mapping[VersionKey, DistributedVersion], there: Collection[VersionKey]) -> None:
        """Store the versions that both registries have now, and drop those that are not `there` any more.

        :raises ClusterError: The ledger cannot be read or written.
        """
        before = await self.read_versions()
        after = {key: each for key, each in before.items() if key in there} | dict(shared)
        if after == before:
            return
        subjects: dict[str, dict[int, DistributedVersion]] = defaultdict(dict)
        for (subject, version), each in after.items():
            subjects[subject][version] = each
        changed = []
        for subject in sorted({subject for subject, _ in (*before, *after)}):
            versions = tuple(each for _, each in sorted(subjects[subject].items()))
            document = DistributedSchemaDocument(subject=subject, versions=versions)
            if self._documents.get(document.key) != document:
                changed.append(document)
        await append_once(self._client, changed, replication_factor=self._replication_factor)

    def close(self) -> None:
        """Let go of the connection."""
        self._view.close()
