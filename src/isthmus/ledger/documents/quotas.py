"""Documents of the client quotas that Isthmus set."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import ClassVar, Self

from isthmus.ledger.documents.document import DocumentOfLink
from isthmus.model.kafka.quotas import MadeQuota, QuotaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDocument(DocumentOfLink):
    """A quota at the target that the link set to `value`, or removed if that is None.

    Without `is_certain` it was about to be changed, with unknown result: it may still be as `before`. An existing quota
    without a document is never changed.
    """

    KIND: ClassVar[str] = "quota"

    user: str
    client_id: str | None
    limit: str
    value: float | None
    before: float | None
    is_certain: bool

    @classmethod
    def of(cls, link: str, key: QuotaKey, made: MadeQuota) -> Self:
        """Build the document of one quota."""
        return cls(
            link=link,
            user=key.user,
            client_id=key.client_id,
            limit=key.limit,
            value=made.value,
            before=made.before,
            is_certain=made.is_certain,
        )

    @property
    def quota(self) -> QuotaKey:
        """The key of the quota."""
        return QuotaKey(self.user, self.client_id, self.limit)

    @property
    def made(self) -> MadeQuota:
        """The change that the link made."""
        return MadeQuota(value=self.value, before=self.before, is_certain=self.is_certain)

    def _path(self) -> tuple[str, ...]:
        # Users may have any name.
        return (hashlib.sha256(json.dumps(list(self.quota)).encode()).hexdigest()[:32],)
